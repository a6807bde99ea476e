#!/bin/sh
# Run before Airflow starts and after each upgrade: sets up Airflow's database, the ledger's, and the first login.
set -eu
airflow db migrate
privacy-release budget migrate
# The command reads the password twice from standard input, since other users of the machine could read it on the
# command line. An existing login stays unchanged.
password=$(cat "$ADMIN_PASSWORD_FILE")
printf '%s\n%s\n' "$password" "$password" | airflow users create \
    --username admin --firstname Airflow --lastname Admin --email admin@localhost --role Admin
