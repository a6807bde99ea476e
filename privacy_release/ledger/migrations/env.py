"""The entry point of alembic: runs the ledger's migrations in the given connection and transaction."""

from alembic import context

from privacy_release.ledger.tables import VERSION_TABLE


def run() -> None:
    """Run the migrations between the database's revision and the requested one."""
    context.configure(connection=context.config.attributes["connection"], version_table=VERSION_TABLE)
    with context.begin_transaction():
        context.run_migrations()


# The name under which alembic loads this file. Importing it elsewhere has no effect.
if __name__ == "env_py":
    run()
