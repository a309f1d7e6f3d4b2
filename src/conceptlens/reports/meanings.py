"""What each number is called and what it means, for a reader who is no statistician. Names in braces are filled in."""

CLASS = {
    "class.accuracy": ("Class accuracy", "Share of {images} whose class is right.{usual}"),
    "class.balanced_accuracy": (
        "Balanced class accuracy",
        "Every class counts the same, so a rare class matters as much as a common one. Guessing gives {guess}.",
    ),
    "class.top5": ("Among the first five", "Share of {images} whose class is among the five most probable."),
    "class.quadratic_weighted_kappa": (
        "Quadratic weighted kappa",
        "Agreement on the ordered scale beyond chance; far misses weigh more than near ones. "
        "0 is chance, 1 is perfect.",
    ),
    "class.macro_auc": (
        "Area under the ROC curve (AUC)",
        "How often an image of a class gets a higher probability for it than an image of another class. "
        "0.5 is chance, 1 is perfect.",
    ),
    "class.ece": (
        "Calibration error",
        "How far stated probabilities are, on average, from the share that comes true. "
        "Near 0% the probabilities are reliable.",
    ),
    "ceiling.accuracy": (
        "Ceiling from true concepts",
        "Class accuracy of a class head that reads the true concept labels ({ceiling} balanced). "
        "A model well above it has class information beyond its concepts.",
    ),
}

SEVERAL_LABELS = {
    "class.accuracy": (
        "Label accuracy",
        "Share of yes/no answers about single labels that are right. "
        "Where labels are rare, always saying no scores high.",
    ),
    "class.subset_accuracy": ("All labels right", "Share of {images} on which every label is right."),
    "class.balanced_accuracy": (
        "Balanced label accuracy",
        "Yes and no count the same for each label. Guessing gives {guess}.",
    ),
    "class.f1_macro": ("F1, mean over labels", "Harmonic mean of precision and recall; 1 is perfect."),
    "class.macro_auc": (
        "Area under the ROC curve (AUC)",
        "How often an image with a label gets a higher probability for it than one without. "
        "0.5 is chance, 1 is perfect.",
    ),
    "class.ece": CLASS["class.ece"],
    "ceiling.accuracy": (
        "Ceiling from true concepts",
        "Label accuracy of a class head that reads the true concept labels ({ceiling} balanced). "
        "A model well above it has label information beyond its concepts.",
    ),
}

CONCEPT = {
    "concept.accuracy": (
        "Concept accuracy",
        "Share of concept values that are right, every concept group counting the same.",
    ),
    "concept.balanced_accuracy": (
        "Balanced concept accuracy",
        "Every value counts the same, so a rare value matters as much as a common one.",
    ),
    "concept.balanced_accuracy_prior_corrected": (
        "… after prior correction",
        "The same, as if all values were equally frequent in training. If it is much higher than the line above, "
        "the model sees the difference but prefers common values.",
    ),
    "concept.auc": (
        "Concept AUC, all images",
        "How often an image with a value scores higher for it than one without. "
        "Knowing the class alone can make this high.",
    ),
    "concept.auc_within_class": (
        "Concept AUC, within a class",
        "The same among images of one class only. If it is clearly above 0.5, the concept is predicted from the image "
        "rather than from the class.",
    ),
    "concept.ece": (
        "Concept calibration error",
        "How far stated concept probabilities are from the share that comes true; near 0% is good.",
    ),
}

INSIDE = {
    "rank.published": (
        "Rank of the patches, published",
        "Mean number of directions that hold 99% of an image's patch tokens. If it is small, the patches are similar. "
        "No single value is good; compare runs.",
    ),
    "rank.effective": (
        "Rank of the patches, effective",
        "The same without a threshold: the exponential of the entropy of the singular values.",
    ),
    "codebook.use": (
        "Codes in use",
        "Share of codes that are nearest to at least one patch. 100% is best: no code is wasted.",
    ),
    "codebook.perplexity": (
        "Evenly used codes",
        "The number of equally used codes with the same entropy, of {codes}. If it is small, most patches share a few "
        "codes.",
    ),
    "slots.assignment_entropy": (
        "Assignment entropy",
        "0 means that each patch goes to one slot only; 1 means that it goes to all slots equally, and maps show "
        "nothing.",
    ),
}

RANKS = {
    "published": "99% of Σσ, as the paper's published code counts it",
    "energy": "99% of Σσ²",
    "numerical": "singular values above rounding error",
    "effective": "exp of the entropy of σ / Σσ",
    "stable": "Σσ² / largest σ²",
    "published_centered": "as published, after subtracting the mean patch",
    "effective_centered": "effective, after subtracting the mean patch",
}
