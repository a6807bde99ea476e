#!/bin/sh
# Before Airflow starts, and again after each upgrade: its database, the budget ledger's, and the first login.
set -eu
airflow db migrate
privacy-release budget migrate
# Asked for twice; on the command line other users of the machine could read it. An existing login stays as it is.
password=$(cat "$ADMIN_PASSWORD_FILE")
printf '%s\n%s\n' "$password" "$password" | airflow users create \
    --username admin --firstname Airflow --lastname Admin --email admin@localhost --role Admin
