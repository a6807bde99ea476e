"""The work of the steps of a release, one module each, without Airflow. A run or a task calls it."""
