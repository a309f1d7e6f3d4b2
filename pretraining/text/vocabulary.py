"""Words of the look of things, by domain, for the templates of `phrases`."""

from dataclasses import dataclass


def _list(words: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in words.replace("\n", " ").split(",") if word.strip())


COLORS = _list(
    """red, orange, yellow, green, blue, purple, violet, pink, brown, black, white, gray, gray, beige, tan, olive,
    buff, rufous, iridescent, golden, silver, cream, crimson, scarlet, maroon, turquoise, teal, navy blue, lilac,
    magenta, dark red, light blue, pale blue, sky blue, deep blue, dark brown, light brown, reddish brown, pale pink,
    dark purple, blue-black, blue-gray, yellowish, greenish, bluish, reddish, whitish, grayish, colorless,
    multicolored, colored"""
)
SHAPES = _list(
    """round, oval, square, triangular, rectangular, circular, flat, curved, straight, pointed, hooked, cone-shaped,
    star-shaped, ring-shaped, kidney-shaped, horseshoe-shaped, crescent-shaped, heart-shaped, spiral, elongated,
    slender, angular, lobed, forked, notched, rounded, irregular, regular, symmetric, asymmetric, cylindrical,
    spherical, tapered, domed, hollow, twisted, bent, indented, branching, egg-like, ball-like, needle-like,
    dagger-shaped, tube-like"""
)
SIZES = _list(
    """tiny, very small, small, medium-sized, large, big, very large, huge, long, short, tall, wide, narrow, thick,
    thin, broad, deep, shallow, larger than the others, smaller than usual, twice as long as wide, high, low, giant,
    miniature"""
)
TEXTURES = _list(
    """smooth, rough, shiny, dull, glossy, matt, striped, spotted, dotted, speckled, mottled, plain, patterned, solid,
    furry, hairy, feathery, scaly, wrinkled, cracked, grainy, granular, fibrous, woven, knitted, wooden, metallic,
    rusty, leathery, waxy, pearly, glassy, transparent, translucent, opaque, blurred, sharp, soft, hard, wet, dry,
    dusty, fluffy, silky, bumpy, spongy, frothy, clumped, dense, sparse, coarse, fine, homogeneous, uneven, checkered,
    streaked, banded"""
)
STATES = _list(
    """open, closed, broken, old, new, young, adult, ripe, empty, full, bright, dark, faint, visible, hidden,
    isolated, scattered, clustered, folded, swollen, healthy, diseased, damaged, normal, abnormal, wild, domestic,
    male, female"""
)
COUNTS = _list(
    """no, one, a single, two, three, four, five, six, a pair of, a few, several, some, many, numerous, a dozen, a
    group of, a cluster of, a row of, a pile of, hundreds of, countless, only one, more than two, at least three,
    fewer than five"""
)
SCENES = _list(
    """grass, water, snow, sand, a table, a tree, a branch, a white background, a black background, the sky, the sea,
    a road, a street, a kitchen, a garden, a forest, a field, a room, a shelf, a rock, the ground, a beach, a river"""
)
PROMPTS = _list(
    """a photo of {a}, a photograph of {a}, a picture of {a}, an image of {a}, {a}, the {x}, this is {a}, a close-up
    of {a}, a blurry photo of {a}, a small image of {a}, a drawing of {a}, a photo of the {x}, a photo of one {x}, a
    bright photo of {a}, a dark photo of {a}, a good photo of {a}, a cropped photo of {a}, there is {a} here, a black
    and white photo of {a}, a photo of a large {x}, a photo of a small {x}, it looks like {a}, a kind of {x}"""
)


@dataclass(frozen=True)
class Domain:
    """What is described, its parts, what may be found on it, and words that fit its parts."""

    subjects: tuple[str, ...]
    parts: tuple[str, ...]
    findings: tuple[str, ...]
    looks: tuple[str, ...]


DOMAINS = {
    "cells": Domain(
        _list(
            """a cell, a white blood cell, a red blood cell, a neutrophil, an eosinophil, a basophil, a lymphocyte, a
            monocyte, a platelet, a blast cell, a plasma cell, a leukocyte, an erythrocyte, a stained blood smear, a
            cell under the microscope, a tumour cell, an epithelial cell, a tissue section, a histology slide, a bone
            marrow smear, a macrophage, a cell nucleus"""
        ),
        _list(
            """nucleus, cytoplasm, chromatin, cell membrane, outline, nucleolus, cell border, cytoplasm rim, vacuole,
            granule, lobe, nuclear membrane, cell body, background, nuclear edge, chromatin pattern, nucleus to
            cytoplasm ratio"""
        ),
        _list(
            """granules, pink granules, coarse dark granules, fine granules, vacuoles, lobes, inclusions, nucleoli,
            Auer rods, large purple granules, a clear zone around the nucleus, parasites, debris, fibres, mitotic
            figures, red granules, small dust-like granules, bubbles in the cytoplasm, thin strands between the
            lobes"""
        ),
        _list(
            """segmented, multilobed, bilobed, band-shaped, unsegmented, indented, condensed, densely packed, open,
            clumped, abundant, scanty, foamy, basophilic, eosinophilic, granular, agranular, hyperchromatic,
            pleomorphic, vacuolated, divided into two lobes, joined by a thin strand, like a kidney bean, like a
            horseshoe, filling most of the cell"""
        ),
    ),
    "skin": Domain(
        _list(
            """a skin lesion, a mole, a melanoma, a melanocytic naevus, a basal cell carcinoma, an actinic keratosis,
            a seborrhoeic keratosis, a benign keratosis, a dermatofibroma, a haemangioma, a vascular lesion, a
            pigmented lesion, a dermoscopy image, a birthmark, a wart, a rash, an ulcer, a freckle, a nodule, a patch
            of skin, a squamous cell carcinoma"""
        ),
        _list(
            """border, center, surface, pigment, pigment network, edge, margin, skin, color, blood vessels, lesion,
            crust, scale, rim, background skin, structure"""
        ),
        _list(
            """dots and globules, streaks, a blue-white veil, milia-like cysts, arborising vessels, ulceration,
            blotches, a pigment network, regression areas, a white scar-like patch, leaf-like areas, hair, red
            lacunae, crusts, scale, comedo-like openings, fingerprint-like lines, dotted vessels, rosettes, shiny
            white lines, pseudopods"""
        ),
        _list(
            """asymmetric, well defined, ill defined, ragged, notched, fading into the skin, sharply cut off, raised,
            flat, pigmented, depigmented, atypical, typical, regular, crusted, ulcerated, inflamed, pearly,
            translucent, waxy, scarred, the same on both sides, with several shades of brown, evenly colored,
            bleeding, benign, malignant, suspicious"""
        ),
    ),
    "fundus": Domain(
        _list(
            """a fundus photograph, a retina, a retinal image, the back of the eye, an eye with diabetic retinopathy,
            an eye with glaucoma, an eye with macular degeneration, a healthy retina, a retinal scan, an eye, a human
            eye"""
        ),
        _list(
            """optic disc, macula, fovea, blood vessels, retina, optic cup, veins, arteries, cup to disc ratio,
            quadrant, vitreous, retinal background, nerve fibre layer, cornea, iris, pupil, lens"""
        ),
        _list(
            """microaneurysms, hard exudates, soft exudates, cotton wool spots, dot haemorrhages, blot haemorrhages,
            new vessels, venous beading, drusen, macular oedema, laser scars, bleeding into the vitreous, tiny red
            dots, yellow deposits, flame-shaped haemorrhages, retinal detachment, fibrous bands, white fluffy patches,
            bleeding inside the retina"""
        ),
        _list(
            """swollen, pale, tortuous, dilated, narrowed, beaded, leaking, mild, moderate, severe, proliferative,
            advanced, early, near the macula, around the optic disc, in all four quadrants, in one quadrant, far from
            the center, absent, present"""
        ),
    ),
    "birds": Domain(
        _list(
            """a bird, a small songbird, a seabird, a duck, a gull, a woodpecker, a sparrow, a hawk, a hummingbird, an
            owl, a warbler, a wading bird, a bird on a branch, a flying bird, a finch, a crow, a parrot, a swallow, a
            tern, a bird in water"""
        ),
        _list(
            """bill, beak, wings, tail, breast, belly, back, crown, throat, nape, forehead, eye, legs, feathers,
            crest, upperparts, underparts, head, eyebrow, eye ring, wing bars, plumage, feet, neck, primary feathers,
            upper tail, under tail"""
        ),
        _list(
            """wing bars, a crest, an eye ring, an eyebrow stripe, spots on the breast, streaks on the belly, a black
            mask, a white collar, a forked tail, webbed feet, talons, a malar stripe, a hood, tail bands, a red cap,
            long tail feathers"""
        ),
        _list(
            """hooked, dagger-like, spatulate, curved down, conical, longer than the head, shorter than the head,
            fan-shaped, notched, squared, masked, capped, striped, perching, swimming, hovering, tapered, brightly
            colored, duck-like"""
        ),
    ),
    "radiology": Domain(
        _list(
            """a breast ultrasound, an ultrasound image, a mass, a chest x-ray, an x-ray image, a CT scan, an MRI
            scan, a mammogram, a tumour, a cyst, a lung, a liver, a brain, a heart, a bone, a medical image, a
            patient, normal tissue"""
        ),
        _list(
            """margin, boundary, shape, echo pattern, posterior shadow, orientation, tissue, border, lung field, rib,
            density, contrast, calcification, wall, interior, surrounding tissue, heart shadow, diaphragm"""
        ),
        _list(
            """calcifications, a shadow behind it, a fracture, fluid, an effusion, nodules, opacities, a pneumothorax,
            air bubbles, a mass, lesions, swelling, scarring, spiculations, enlarged lymph nodes, an implant,
            inflammation, a pacemaker"""
        ),
        _list(
            """circumscribed, indistinct, spiculated, microlobulated, hypoechoic, anechoic, hyperechoic, isoechoic,
            complex, parallel to the skin, taller than wide, enhanced, cystic, solid, benign, malignant, calcified,
            enlarged, cloudy, bright white, blurred, sharply drawn, invasive, opaque, lucent"""
        ),
    ),
    "objects": Domain(
        _list(
            """a creature, an animal, an object, a car, a dog, a cat, a building, a plant, a fish, an insect, a
            machine, a person, a flower, a tool, a toy, a vehicle, a fruit, a house, a horse, a chair, a boat, a leaf,
            a snake, a face, a piece of clothing"""
        ),
        _list(
            """body, head, tail, legs, ears, eyes, wheels, windows, handle, surface, leaves, petals, roof, door, fur,
            skin, shell, horns, antennae, fins, wings, mouth, nose, arms, hands, feet, stem, seat, screen, buttons,
            edges, corners, lid, claws"""
        ),
        _list(
            """stripes, spots, dots, wheels, holes, scratches, letters, writing, hair, leaves, flowers, wings,
            windows, buttons, cracks, water, a shadow, a hat, glasses, teeth, whiskers, a long tail, a handle, a
            pattern, a reflection, smoke, fire"""
        ),
        _list(
            """painted, shaped like a box, round like an egg, like a triangle with its tip up, marked with dark
            stripes, standing, sitting, lying down, running, flying, made of wood, made of metal, made of glass, made
            of plastic, facing left, seen from above, seen from the side, parked, moving, in the background, in the
            foreground, upside down"""
        ),
    ),
}
