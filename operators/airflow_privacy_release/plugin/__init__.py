"""Pages inside Airflow's UI: the releases of the lakes, the report of a run, the privacy budgets.

`plugin` registers the pages and is all that Airflow's other processes import. The pages themselves are a
small separate web application (`app`) behind Airflow's login. Access is decided only in `auth`. The pages
show figures, manifests and reports. Only the page of an approval shows records, and only to users who may
answer it.
"""
