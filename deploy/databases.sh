#!/bin/sh
# The PostgreSQL image runs this when its volume is empty. Airflow and the budget ledger each get a database and a
# user, so that a user who can write DAG runs cannot change the ledger, and the ledger's user cannot change them.
set -eu
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres <<'SQL'
\set airflow_password `cat "$AIRFLOW_DB_PASSWORD_FILE"`
\set ledger_password `cat "$LEDGER_DB_PASSWORD_FILE"`
CREATE ROLE airflow LOGIN PASSWORD :'airflow_password';
CREATE DATABASE airflow OWNER airflow;
REVOKE ALL ON DATABASE airflow FROM PUBLIC;
CREATE ROLE ledger LOGIN PASSWORD :'ledger_password';
CREATE DATABASE privacy OWNER ledger;
REVOKE ALL ON DATABASE privacy FROM PUBLIC;
SQL
