/** The sections of the trust view: each asks a question and draws documents of the run folder. */
import { audit } from "./audit.js";
import { calibration } from "./calibration.js";
import { corrections } from "./corrections.js";
import { faithfulness } from "./faithfulness.js";
import { leakage } from "./leakage.js";
import { localization } from "./localization.js";
import { subgroups } from "./subgroups.js";
import { uncertainty } from "./uncertainty.js";
import * as verdicts from "./verdicts.js";

const REGIONS = "It needs regions: masks, boxes or points (data.regions of the recipe).";

/**
 * Sections: `asks` is the question, `parts` what is drawn, each from one document of the run folder; `concepts` what
 * needs a method that reads concepts.
 */
/** @type {any[]} */
export const SECTIONS = [
  {
    name: "corrections",
    title: "Corrections",
    asks: "Does the class follow when a person corrects a concept?",
    concepts: true,
    parts: [{ document: "interventions", draw: corrections, verdict: verdicts.ofInterventions }],
  },
  {
    name: "leakage",
    title: "Leakage",
    asks: "Do concept scores carry more class information than the concept labels, and does the class head use it?",
    concepts: true,
    parts: [{ document: "leakage", draw: leakage, verdict: verdicts.ofLeakage }],
  },
  {
    name: "calibration",
    title: "Calibration",
    asks: "Does the model's confidence equal its accuracy?",
    parts: [{ document: "failures", draw: calibration, verdict: verdicts.ofCalibration }],
  },
  {
    name: "subgroups",
    title: "Subgroups",
    asks: "Is the model worse for some subgroups of patients or images?",
    parts: [{ document: "failures", draw: subgroups, verdict: verdicts.ofGroups }],
  },
  {
    name: "uncertainty",
    title: "Uncertainty",
    asks: "How often do prediction sets hold the true answer, and when should the model abstain?",
    parts: [{ document: "failures", draw: uncertainty, verdict: verdicts.ofSets }],
  },
  {
    name: "maps",
    title: "Maps",
    asks: "Do maps point at the region of their concept, and show what the model used?",
    concepts: true,
    parts: [
      {
        document: "localization",
        draw: localization,
        verdict: verdicts.ofMaps,
        title: "Where maps point",
        asks: "Do maps point at the region of their concept?",
        needs: REGIONS,
      },
      {
        document: "faithfulness",
        side: "faithfulness",
        draw: faithfulness,
        verdict: verdicts.ofFaithfulness,
        title: "What maps show",
        asks: "Do maps show what the model used?",
      },
    ],
  },
  {
    name: "audit",
    title: "Audit",
    asks: "What did the audit find out about the codebook and the concepts?",
    parts: [{ document: "audit", draw: audit, verdict: verdicts.ofAudit }],
  },
];
