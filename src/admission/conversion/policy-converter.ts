/** Converts spoke → hub → spoke, and preserves what a version cannot hold. */
import { createCelBudget, type CelBudget } from '../../cel/frame.ts';
import { valueIn, type JsonObject } from '../../json/json.ts';
import { quote } from '../../json/printable.ts';
import { runSteps, type CompiledStep } from './compile-steps.ts';
import { annotationBytes, MOST_ANNOTATION_BYTES } from '../policy/object-metadata.ts';
import { ConversionFailure, versionOf } from './converter.ts';
import { withField } from './edit.ts';
import { findLossy } from './find-lossy.ts';
import {
  annotationOf,
  encodePreserved,
  parsePreserved,
  putPreserved,
  takePreserved,
} from './preserved-annotation.ts';
import { restorePreserved } from './restore-preserved.ts';
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

/** An object without our annotations, and their texts: preserved values of other versions. */
interface Converting {
  readonly object: JsonObject;
  readonly preserved: ReadonlyMap<string, string>;
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
  const { clean, preserved } = takePreserved(object);
  const budget = createCelBudget(COST_LIMIT);
  // An object of this version already holds all of its values.
  const start = { object: clean, preserved: without(preserved, from) };
  const inHub = from === plan.hub ? start : convertOnce(plan, start, from, plan.hub, budget);
  const converted = to === plan.hub ? inHub : convertOnce(plan, inHub, plan.hub, to, budget);
  const result = putPreserved(converted.object, converted.preserved);
  if (converted.preserved.size > 0) checkSize(result, [...converted.preserved.keys()]);
  return result;
}

function without(texts: ReadonlyMap<string, string>, version: string): Map<string, string> {
  return new Map([...texts].filter(([key]) => key !== version));
}

/** Converts between a spoke and the hub, in either direction. */
function convertOnce(
  plan: ConversionPlan,
  { object, preserved }: Converting,
  from: string,
  to: string,
  budget: CelBudget,
): Converting {
  const schema = plan.schemas.get(to);
  const stepped = stepTo(plan, object, from, to, budget);
  const text = preserved.get(to);
  const restored = text === undefined ? stepped : restorePreserved(stepped, parsePreserved(text), schema);
  const left = without(preserved, to);
  if (plan.roundTrip === 'Preserve') {
    // Sends the unpruned result: the API server drops unknown fields, and may know a newer schema than this replica.
    const stored = pruneObject(restored, schema);
    const back = pruneObject(stepBack(plan, stored, to, from, budget), plan.schemas.get(from));
    const lossy = findLossy(object, back, plan.schemas.get(from));
    if (lossy.length > 0) left.set(from, encodePreserved(lossy));
  }
  return { object: restored, preserved: left };
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
  if (spoke === undefined)
    throw new ConversionFailure(`there are no steps for version ${quote(version)}: add it to spec.versions`);
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

function checkSize(object: JsonObject, versions: readonly string[]): void {
  const bytes = annotationBytes(valueIn(object, 'metadata', 'annotations'));
  if (bytes <= MOST_ANNOTATION_BYTES) return;
  throw new ConversionFailure(
    `the values that this version cannot hold do not fit into ${versions.map(annotationOf).join(' and ')}: ` +
      `all annotations together would take ${bytes} bytes, of ${MOST_ANNOTATION_BYTES}. Let the version hold more of them, ` +
      'remove some in the steps of both directions, or set roundTrip: Lossy',
  );
}
