"""The steps of a release, one module each, without Airflow. `running` executes all of them in one process."""
