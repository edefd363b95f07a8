/** Converts spoke → hub → spoke, and preserves what a version cannot hold. */
import { createCelBudget, type CelBudget } from '../../cel/frame.ts';
import { isJsonObject, type JsonObject } from '../../json/json.ts';
import { quote } from '../../json/printable.ts';
import { runSteps, type CompiledStep } from './compile-steps.ts';
import { ConversionFailure } from './converter.ts';
import { fieldAt, fieldIn, withField } from './edit.ts';
import { keptKey, putKept, readKept, takeKept, writeKept } from './preserved-annotation.ts';
import { lostValues } from './find-lossy.ts';
import { putBack } from './restore-preserved.ts';
import { pruneObject } from './structural-schema.ts';

/** The steps between one version and the hub. */
export interface Spoke {
  readonly toHub: readonly CompiledStep[];
  readonly fromHub: readonly CompiledStep[];
}

export interface ConversionPlan {
  readonly group: string;
  readonly hub: string;
  /** Keyed by version, without the hub. */
  readonly spokes: ReadonlyMap<string, Spoke>;
  /** Keyed by version. Undefined: the API server keeps all fields. */
  readonly schemas: ReadonlyMap<string, JsonObject | undefined>;
  readonly roundTrip: 'Preserve' | 'Lossy';
}

/** The CEL cost limit of one object, for both directions: a list has thousands of objects, each with its own budget. */
const COST_LIMIT = 2_000_000;

/** An object during conversion, without our annotations. */
interface Travelling {
  readonly object: JsonObject;
  /** Preserved values of other versions, as text. */
  readonly kept: Map<string, string>;
}

/**
 * Converts an object by a plan. Does not change `object`.
 *
 * To find what a version cannot hold, it prunes the result as the API server would, converts it back with the same
 * steps and compares. Values that are missing or different go into an annotation. The conversion back restores them.
 */
export function convertByPlan(plan: ConversionPlan, object: JsonObject, to: string): JsonObject {
  const from = versionOf(object);
  if (from === to) return object;
  const { clean, kept } = takeKept(object);
  const own = new Map(kept);
  own.delete(from); // an object of this version already holds all of its values
  const budget = createCelBudget(COST_LIMIT);
  const start: Travelling = { object: clean, kept: own };
  const inHub = from === plan.hub ? start : travel(plan, start, from, plan.hub, budget);
  const arrived = to === plan.hub ? inHub : travel(plan, inHub, plan.hub, to, budget);
  const result = putKept(arrived.object, arrived.kept);
  if (arrived.kept.size > 0) checkSize(result, [...arrived.kept.keys()]);
  return result;
}

/** Converts between a spoke and the hub, in either direction. */
function travel(
  plan: ConversionPlan,
  { object, kept }: Travelling,
  from: string,
  to: string,
  budget: CelBudget,
): Travelling {
  const naive = stepTo(plan, object, from, to, budget);
  const before = kept.get(to);
  const arrived = before === undefined ? naive : putBack(naive, readKept(before), plan.schemas.get(to));
  const stillKept = new Map(kept);
  stillKept.delete(to);
  if (plan.roundTrip === 'Preserve') {
    // Sends the unpruned result: the API server drops unknown fields, and may know a newer schema than this replica.
    const stored = pruneObject(arrived, plan.schemas.get(to));
    const schema = plan.schemas.get(from);
    const back = pruneObject(stepBack(plan, stored, to, from, budget), schema);
    const lost = lostValues(object, back, schema);
    if (lost.length > 0) stillKept.set(from, writeKept(lost));
  }
  return { object: arrived, kept: stillKept };
}

function stepTo(
  { group, hub, spokes }: ConversionPlan,
  object: JsonObject,
  from: string,
  to: string,
  budget: CelBudget,
): JsonObject {
  const [version, direction] = to === hub ? ([from, 'toHub'] as const) : ([to, 'fromHub'] as const);
  const spoke = spokes.get(version);
  if (spoke === undefined) {
    throw new ConversionFailure(`there are no steps for version ${quote(version)}: add it to spec.versions`);
  }
  return withField(runSteps(spoke[direction], object, budget), 'apiVersion', `${group}/${to}`);
}

/** Rejects an object without a way back: clients of this version could no longer read it. */
function stepBack(
  plan: ConversionPlan,
  object: JsonObject,
  from: string,
  to: string,
  budget: CelBudget,
): JsonObject {
  try {
    return stepTo(plan, object, from, to, budget);
  } catch (error) {
    if (!(error instanceof ConversionFailure)) throw error;
    throw new ConversionFailure(`the result could not be converted back to ${to}: ${error.message}`, {
      cause: error,
    });
  }
}

export function versionOf(object: JsonObject): string {
  const apiVersion = fieldIn(object, 'apiVersion');
  return typeof apiVersion === 'string' ? apiVersion.slice(apiVersion.indexOf('/') + 1) : '';
}

/** The total size limit of an object's annotations, in bytes. @see k8s.io/apimachinery pkg/api/validation */
const MOST_ANNOTATIONS_BYTES = 256 * 1024;

function checkSize(object: JsonObject, versions: readonly string[]): void {
  const annotations = fieldAt(object, ['metadata', 'annotations']);
  const entries = isJsonObject(annotations) ? Object.entries(annotations) : [];
  const bytes = entries.reduce(
    (sum, [key, value]) =>
      sum + Buffer.byteLength(key) + (typeof value === 'string' ? Buffer.byteLength(value) : 0),
    0,
  );
  if (bytes <= MOST_ANNOTATIONS_BYTES) return;
  throw new ConversionFailure(
    `the values that this version cannot hold do not fit into ${versions.map(keptKey).join(' and ')}: ` +
      `all annotations together would take ${bytes} bytes, of ${MOST_ANNOTATIONS_BYTES}. Let the version hold more of them, ` +
      'remove some in the steps of both directions, or set roundTrip: Lossy',
  );
}
