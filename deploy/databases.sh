#!/bin/sh
# Run by the PostgreSQL image when its volume is empty: one database and one user for Airflow, and others for the
# budget ledger, so that who may write DAG runs cannot touch what was spent, nor the other way round.
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
