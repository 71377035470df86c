"""The screens: the dashboard and the help."""
