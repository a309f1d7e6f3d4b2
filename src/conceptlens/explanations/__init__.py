"""Why a model said what it said of an image: contributions, maps, one sentence; data first, pictures second."""
