"""Pages inside Airflow's UI: the releases of the lakes, the report of a run, the privacy budget.

`plugin` registers them and is all that Airflow's other processes import. The pages themselves are a small web
application of their own (`app`) behind Airflow's login; who may see what is decided in `rights` alone. They
show figures, manifests and reports, and no record but on the page of an approval, to who may answer it.
"""
