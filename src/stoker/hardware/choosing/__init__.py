"""Which hardware a training needs: its memory and its speed worked out, what there is, and the ranking of it."""
