/** What the server answers. Written by scripts/page_types.py from the API's schema; not edited by hand. */
declare namespace Answers {
  interface About { schema: 1; version: string; api: 1; token: boolean; upload: UploadLimits }
  interface Account { of: string; minus: string | null; total: number | null; base: number | null; bypass: number | null; reasons: Array<Reason>; aside: Array<Aside> }
  interface Agreement { raters: number; kappa: number | null; low: number | null; high: number | null; linear_kappa: number | null; alpha: number | null; pairs: Record<string, number | null> }
  interface Analysis { study: string; run: string; data: string; method: string; map: string; control: string; result: Numbers; everyone: Numbers; raters: Array<Rater> }
  interface AnnotationPart { name: string; group: string; note: string; author: string; time: string }
  interface AnnotationsAnswer { schema: 1; file: string; nodes: Record<string, AnnotationPart>; codes: Record<string, AnnotationPart>; tokens: Record<string, AnnotationPart>; images: Record<string, AnnotationPart>; run: AnnotationPart | null }
  interface AnswerPart { words: string; edit: string }
  interface Answered { answer: string; ms: number; changes: number }
  interface AnyDocument { [key: string]: any }
  interface Aside { concept: number; question: string; why: "does not apply" | "in no training image"; weight: number | null }
  interface Asked { schema: 1; said: string; entropy: number; ask: Array<Question> }
  interface Begun { schema: 1; rater: string; word: string; answers: Record<string, Answered>; comment: string; started: string }
  interface Best { schema: 1; metric: string; images: number; values: Record<string, number>; p: Record<string, number>; highest: string; best: string | null }
  interface Block { supervision: "text" | "class-table" | "image-labels" | "class-labels"; title: string; rows: Array<ComparedRow>; best: Record<string, string | null>; comparisons: Array<Versus>; controls: Array<Versus>; verdicts: Record<string, string> }
  interface ByteMaps { of: Array<number>; scale: Array<number>; data: string }
  interface Change { concept: number; before: number; after: number }
  interface Changed { row: number; column: number; before: number; after: number }
  interface ClassReading { name: string; probability: number; logit: number; threshold: number | null }
  interface CodeEntry { code: number; name: string; level: "concept" | "group" | null; confidence: number | null; chance: number | null; color: string; count: number | null; use: number | null; by_class: Array<number> | null; flags: Array<Flag>; place: [number, number, number]; nearest: Array<NearCode>; patches: Array<PatchRef> }
  interface Codebook { schema: 1; complete: boolean; split: "train" | "val" | "test" | null; images: number; grid: [number, number] | null; patches: number; perplexity: number | null; why: string | null; map: Projection; classes: Array<string>; codes: Array<CodeEntry> }
  interface CommandLine { schema: 1; line: string }
  interface ComparedData { name: string; images: number; units: number; classes: number; zero_shot: Array<ZeroShot>; blocks: Array<Block> }
  interface ComparedRow { name: string; control_of: string | null; method: string; regularizer: string | null; encoder: string; encoder_trains: boolean | number | string | null; text: string | null; bypass: string | null; trainings: number; concepts: number; measures: Record<string, Measured>; numbers: Record<string, Counted>; ranks: Record<string, Array<[number, number, number, number]>>; runs: Array<string> }
  interface Comparison { schema: 1; name: string; seeds: Array<number>; folds: Folds | null; trials: number; statistics: Statistics; jobs: comparison_Jobs; failed: Array<Failed>; data: Array<ComparedData> }
  interface Completeness { mean: number; worst: number; above: number; tolerance: number; steps_mean: number; steps_most: number }
  interface ConceptEntry { index: number; name: string; group: string; value: string; kind: "exclusive" | "independent"; part: string | null; text: string; slot: number | null; labeled: number | null; positive: number | null; mean_probability: number | null; auc: number | null; group_quality: Quality | null; weights: Array<number> | null; influence: number | null; by_class: Array<number | null> | null; flags: Array<Flag>; place: [number, number, number] | null; patches: Array<PatchRef>; images: Array<ImageRef> }
  interface ConceptPart { name: string; group: string; value: string; text: string; part: string | null; score: number; probability: number; label: boolean | null; applies: boolean; seen: boolean; placeless: boolean; index: number; bottleneck: number; slot: number | null }
  interface Concepts { schema: 1; complete: boolean; split: "train" | "val" | "test" | null; images: number; grid: [number, number] | null; why: string | null; map: Projection; classes: Array<string>; concepts: Array<ConceptEntry> }
  interface Contrast { true: Mean; shuffled: Mean; difference: Mean; p: number | null; above: number | null }
  interface Corrected { schema: 1; file: string; total: number; rows: Array<CorrectionRow>; added: number; note: string }
  interface CorrectionRow { time: string; rater: string; image: string; concept: string; before: string; said: string; after: string }
  interface Corrections { schema: 1; file: string; total: number; rows: Array<CorrectionRow> }
  interface Counted { mean: number; sd: number | null; by_run: Array<number | null> }
  interface Crop { image: string; position: number; cosine: number; box: [number, number, number, number]; picture: string | null }
  interface EdgeColumns { source: Array<number>; target: Array<number>; value: Array<number>; weight: Array<number>; all: number }
  interface EditEvent { kind: "waiting" | "step" | "done" | "failed"; ahead: number | null; step: number | null; probability: number | null; picture: string | null; reading: Reading | null; changed: Array<Changed> | null; stopped: boolean | null; seconds: number | null; message: string | null }
  interface ErrorAnswer { schema: 1; error: ErrorPart }
  interface ErrorPart { code: "bad-request" | "token" | "forbidden" | "owner" | "not-found" | "missing" | "broken" | "taken" | "closed" | "too-large" | "format" | "slow" | "busy" | "bug"; message: string; command: string | null }
  interface Evidence { run: string; comparison: string; data: string; images: number; supervision: "text" | "class-table" | "image-labels" | "class-labels"; block: string; row: string; control: boolean; verdict: string | null; trainings: number; measures: Record<string, Measured> }
  interface Failed { job: string; reason: string | null }
  interface Flag { name: string; why: string }
  interface Flipped { schema: 1; kind: "exact" | "greedy"; before: string; after: string | null; edits: Array<string> | null; groups: Array<string> | null }
  interface Folds { k: number; repeats: number }
  interface FormPart { command: string; about: string; needs_run: boolean; options: Array<OptionPart>; settings: Array<OptionPart> }
  interface Glossary { schema: 1; terms: Record<string, Term> }
  interface GraphAnswer { schema: 1; name: "classes" | "image" | "data" | "noise" | "attack"; others: Array<"classes" | "image" | "data" | "noise" | "attack">; about: "image" | "class" | "classes" | "data"; title: string; model: string; outputs: Array<string>; images: number; examples: Array<ImagePart>; images_of: Array<number>; path: string; target: string; rows: Array<Row>; completeness: Completeness; nodes: Array<NodePart>; edges: EdgeColumns }
  interface GroupPart { name: string; kind: "exclusive" | "independent"; part: string | null; start: number; values: Array<string>; texts: Array<string>; under: [string, string | null] | null }
  interface Head { schema: 1; classes: Array<string>; task: string; thresholds: Array<number>; space: string; bypass: string | null; linear: boolean; weight: Array<Array<number>> | null; bias: Array<number> | null; reference: Array<number>; epsilon: number; way: string; values: Array<Array<number>>; yes: Array<number>; no: Array<number>; low: Array<number>; high: Array<number>; slope: Array<number>; offset: Array<number>; odds_slope: Array<number>; odds_offset: Array<number>; class_mean: Record<string, Array<number>> }
  interface Heat { concept: number; most: number; levels: Array<number> }
  interface HeatAnswer { schema: 1; heat: Heat }
  interface History { schema: 1; status: "running" | "done" | "failed" | "broken"; reason: string | null; cursor: string; reset: boolean; lines: Array<Record<string, any>> }
  interface ImageItem { split: "train" | "val" | "test"; row: number; id: string; truth: Array<string> | null; predicted: Array<string> | null; probability: number | null; margin: number | null; right: boolean | null; thumbnail: string }
  interface ImagePart { number: number; name: string }
  interface ImageRef { split: "train" | "val" | "test"; row: number; probability: number }
  interface Images { schema: 1; split: "train" | "val" | "test"; total: number; page: number; size: number; stored: boolean; why: string | null; command: string | null; items: Array<ImageItem> }
  interface IndexPart { grid: [number, number]; codes: Array<number>; similarity: Array<number> | null; legend: Array<LegendEntry>; sample: number }
  interface Intervention { schema: 1; edits: Array<string>; before: Side; after: Side; bottleneck: Array<number>; changed: Array<Change>; decompositions: Array<LogitDecomposition>; took_ms: number }
  interface JobAnswer { schema: 1; job: JobPart }
  interface JobLog { schema: 1; text: string; after: number; state: "queued" | "running" | "done" | "failed" | "cancelled" | "interrupted" }
  interface JobPart { id: string; command: string; line: string; device: string; run: string | null; created: string; state: "queued" | "running" | "done" | "failed" | "cancelled" | "interrupted"; started: string | null; ended: string | null; code: number | null; said: string | null; done: number | null; total: number | null; seconds_left: number | null; left_of: "job" | "step" | null }
  interface Kept { schema: 1; answered: number; of: number; complete: boolean; saved: string }
  interface LegendEntry { code: number; name: string; level: "concept" | "group" | null; confidence: number | null; chance: number | null; sampled: number; color: string; patches: number }
  interface LogitDecomposition { of: string; minus: string | null; total: number; base: number; values: Array<number>; bypass: number }
  interface Maps { grid: [number, number]; evidence: ByteMaps | null; unplaced: Array<number> | null; attention: ByteMaps | null; assignment: ByteMaps | null; gradcam: ByteMaps | null; gradcam_at: string | null; without: Record<string, string>; captions: Record<string, string>; failed: Record<string, string>; unmoving: Array<string> }
  interface Masked { schema: 1; hidden: Array<number>; before: Array<number>; after: Array<number>; picture: string | null; note: string }
  interface Mean { value: number | null; low: number | null; high: number | null; n: number; images: number }
  interface Measured { mean: number; sd: number | null; interval: [number, number] | null; by_training: Array<number | null> }
  interface MethodCard { name: string; title: string; paper: string | null; sentences: Array<string>; variant: string | null; family: Array<string>; scheme: MethodScheme; supervision: "text" | "class-table" | "image-labels" | "class-labels"; supervision_title: string; bypass: string | null; attention: boolean; evidence: boolean; command: string }
  interface MethodEvidence { schema: 1; method: string; rows: Array<Evidence>; runs: Array<RunCard> }
  interface MethodScheme { encoder: string; reads: "patches" | "image" | "layers"; gather: string | null; slots: string | null; score: string | null; text: boolean; concepts: string | null; decide: string; bypass: string | null; beside: string | null; own: Array<string> }
  interface Methods { schema: 1; methods: Array<MethodCard> }
  interface NearCode { code: number; similarity: number }
  interface Neighbor { code: number; distance: number }
  interface NeighborsAnswer { schema: 1; split: "train" | "val" | "test"; row: number; by: "concepts" | "tokens"; rows: Array<number>; similarity: Array<number> }
  interface NodeAnswer { schema: 1; number: number; id: string; samples: number | null; active_of: Array<number> | null; crops: Array<Crop>; sheet: boolean; places: Array<SeenPlace> }
  interface NodePart { id: string; kind: "output" | "concept" | "error"; row: number; name: string; contributions: Array<number>; shares: Array<number>; top_of: Array<number>; shared: boolean; active: number; crops: number }
  interface Numbers { raters: Array<string>; likert: Contrast; choice: Share; choice_shuffled: Share; chance: number | null; likert_agreement: Agreement; choice_agreement: Agreement }
  interface OptionPart { name: string; kind: "flag" | "choice" | "int" | "float" | "text"; several: boolean; choices: Array<string>; default: string | null; help: string }
  interface PassAnswer { schema: 1; state: "none" | "running" | "done" | "failed"; done: number; total: number; seconds_left: number | null; reason: string | null }
  interface PatchRef { split: "train" | "val" | "test"; row: number; cell: number; value: number }
  interface Prediction { schema: 1; run: string; weights: string; image: SeenImage; picture: string; truth: Array<string> | null; predicted: Array<string>; about: string; rival: string | null; sentence: string; classes: Array<ClassReading>; concepts: Array<ConceptPart>; account: Account; decompositions: Array<LogitDecomposition>; reference: Reference; deciding: Array<number>; bypass: string | null; state: State; truth_edits: Array<string>; unlike_training: boolean | null; prediction_set: Array<string> | null; cautions: Array<string>; maps: Maps; index: IndexPart | null; took_ms: number }
  interface Projection { of: "texts" | "class weights" | "codes" | null; explained: Array<number> }
  interface Proposal { text: string; similarity: number }
  interface Proposals { schema: 1; proposals: Array<Proposal> }
  interface Quality { balanced_accuracy: number | null; auc: number | null; auc_within_class: number | null; ece: number | null }
  interface Question { unit: string; kind: "exclusive" | "independent"; expected_gain: number; uncertainty: number; answers: Array<AnswerPart> }
  interface RankCurve { name: string; values: Array<number> }
  interface Rater { rater: string; answered: number; of: number; true: number | null; shuffled: number | null; above: number | null; choice: Share; choice_shuffled: Share; skill: number | null; checks: string; median_ms: number | null; fast: number; passed: boolean; why_not: Array<string>; comment: string }
  interface RaterPart { rater: string; answered: number; of: number; complete: boolean; saved: string | null; here: boolean; reason: string | null }
  interface Reading { schema: 1; tokens: Array<Array<number>>; probabilities: Array<number>; concept: number | null; heat: Array<Heat>; near: Record<string, Array<Neighbor>>; picture: string | null; title: string }
  interface Reason { concept: number; question: string; answer: string; words: string; probability: number; weight: number | null; compared: boolean }
  interface Reference { what: "average image" | "zero scores"; images: number; split: string | null; why: string | null }
  interface Row { layer: string; grid: [number, number]; channels: number; concepts: number; used: number; relative_l2: number; zero_share: number; error_share: number }
  interface RunCard { key: string; name: string; folder: string; within: string | null; status: "running" | "done" | "failed" | "broken"; reason: string | null; kind: "bottleneck" | "decomposition" | "codebook" | "comparison" | "study" | null; about: string | null; method: string | null; regularizer: string | null; bypass: string | null; data: string | null; images: number | null; encoder: string | null; concepts: string | null; seed: number | null; unverified: boolean; scores: Record<string, number | string> | null; rank: RankCurve | null; epochs: number | null; epoch: number | null; changed: string | null; has: Array<string>; trust: "pass" | "finding" | "unexamined" | null; verdicts: Record<string, string> }
  interface RunDetail { schema: 1; card: RunCard; recipe: Record<string, any> | null; classes: Array<string> | null; task: string | null; image_size: number | null; fit: string | null; groups: Array<GroupPart>; splits: Record<string, number>; metrics: Record<string, any> | null; environment: Record<string, any> | null; missing: Record<string, string>; results: Record<string, string> }
  interface Runs { schema: 1; runs: Array<RunCard>; starts: Array<string> }
  interface SeenImage { split: "train" | "val" | "test" | null; row: number | null; id: string }
  interface SeenPlace { image: string; grid: [number, number]; values: Array<Array<number>>; picture: number | null }
  interface Share { right: number; n: number; value: number | null; low: number | null; high: number | null; independent: number | null }
  interface ShownImage { row: number; concept: number; probability: number; picture: string | null }
  interface Side { said: Array<string>; classes: Array<ClassReading> }
  interface State { bottleneck: Array<number>; concept_logits: Array<number>; rest: Array<number>; context: Array<number> }
  interface Statistics { primary: string; confidence: number; alpha: number; power: number }
  interface Studies { schema: 1; studies: Array<StudyCard> }
  interface Studio { schema: 1; model: StudioModel; source: string; network: string; grid: [number, number]; codes: number; width: number; concepts: Array<string>; accuracy: Record<string, number>; variant: string | null; images: Array<ShownImage>; has: Array<"tokens" | "edit" | "search" | "masking" | "pairs" | "bias">; pictures: Record<string, string>; missing: Record<string, string>; limits: StudioLimits; names: Record<string, string> }
  interface StudioLimits { steps: number; seconds: number }
  interface StudioModel { name: string; here: boolean; why: string | null }
  interface StudyCard { key: string; name: string; folder: string; reason: string | null; study: string | null; images: number; questions: number; raters: number; complete: number; closed: boolean }
  interface StudyDetail { schema: 1; card: StudyCard; page: string; rater_token: string | null; raters: Array<RaterPart>; models: number; alone: string; analyze: string }
  interface StudyResult { schema: 1; analysis: Analysis; table: StudyTable }
  interface StudyTable { head: Array<string>; rows: Array<Array<string>>; markdown: string }
  interface SuspectPart { row: number; of: string; label: string; instead: string; score: number; why: "disagreement" | "duplicate"; other: number | null }
  interface SuspectsAnswer { schema: 1; split: "train" | "val" | "test"; total: number; suspects: Array<SuspectPart> }
  interface TableAnswer { schema: 1; rows: Array<TableRow> }
  interface TableRow { key: string; split: string | null; metrics: Record<string, number>; intervals: Record<string, [number, number]>; tag: string; note: string; reason: string | null }
  interface Term { meaning: string; reference: string | null }
  interface UploadLimits { bytes: number; pixels: number; formats: Array<string> }
  interface Versus { measure: string; first: string; second: string; difference: number | null; interval: [number, number] | null; p_images: number | null; p_seeds: number | null; p: number | null; detectable: number | null; trainings: number; different: boolean }
  interface ZeroShot { encoder: string; text: string | null; auc: number | null; auc_within_class: number | null }
  interface comparison_Jobs { done: number; of: number }
  interface jobs_Jobs { schema: 1; allowed: boolean; how: string; devices: Array<string>; recipes: Array<string>; forms: Array<FormPart>; jobs: Array<JobPart> }
}
