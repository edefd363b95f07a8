/** Compiles a ConversionPolicy into a converter. Reports all problems of a policy together. */
import type {
  ConversionPolicy,
  ConversionStep,
  VersionSteps,
  ConversionPolicySpec,
} from '../../api/conversion-policy.ts';
import { isJsonObject, objectIn, textIn, valueIn, type JsonObject } from '../../json/json.ts';
import { quote } from '../../json/printable.ts';
import { compileSteps, type CompiledStep } from './compile-steps.ts';
import { ConversionFailure, type Converter, type ConversionProblem, type Report } from './converter.ts';
import type { Definition } from './definition.ts';
import { absentKey, invert, type StepPath } from './step.ts';
import { convertByPlan, COST_LIMIT, type Spoke } from './policy-converter.ts';
import { groupResourceName } from '../../json/kube-object.ts';
import type { Segment } from '../../json/field-path.ts';
import { minimalValue, schemaAt } from './structural-schema.ts';
import { createCelBudget } from '../../cel/values/values.ts';

export interface CompiledConversion {
  readonly name: string;
  readonly generation: number;
  /** The spec as written, for `status.inForce`. */
  readonly spec: ConversionPolicy['spec'];
  readonly definition: Definition;
  readonly converter: Converter;
}

/** `usable` is undefined if the steps are invalid. With `problems`, it converts between the valid versions. */
export function compileConversion(
  policy: ConversionPolicy,
  definition: Definition,
): {
  readonly usable: CompiledConversion | undefined;
  readonly problems: readonly ConversionProblem[];
} {
  const { spec, metadata } = policy;
  const coverage = coverageProblems(spec, definition);
  const schemas = new Map(definition.versions.map(({ name, schema }) => [name, schema]));
  const problems: ConversionProblem[] = [];
  /** Not among `problems`, because an expression that fails for some objects must not end what is in force. */
  const failing: ConversionProblem[] = [];
  const spokes = new Map<string, Spoke>();
  for (const [index, version] of spec.versions.entries()) {
    const where = `spec.versions[${index}]`;
    if (!schemas.has(version.name) || version.name === spec.hub) continue; // coverageProblems reports it
    const from = { name: version.name, schema: schemas.get(version.name) };
    const hub = { name: spec.hub, schema: schemas.get(spec.hub) };
    const spoke = compileSpoke(version, where, from.schema, hub.schema, problems);
    if (spoke === undefined) continue;
    spokes.set(version.name, spoke);
    problems.push(...fieldProblems(spoke, where, from, hub));
    failing.push(...absentProblems(spoke.toHub, from), ...absentProblems(spoke.fromHub, hub));
  }
  if (problems.length > 0 || !schemas.has(spec.hub))
    return { usable: undefined, problems: [...problems, ...failing, ...coverage] };
  const { group, resource } = definition;
  const plan = { group, hub: spec.hub, spokes, schemas, roundTrip: spec.roundTrip ?? 'Preserve' };
  const name = metadata.name ?? '';
  const converter: Converter = {
    name: `ConversionPolicy ${name}`,
    target: { group, resource },
    versions: [spec.hub, ...spokes.keys()],
    convert: (object, to) => convertByPlan(plan, object, to),
  };
  const usable = { name, generation: metadata.generation ?? 0, spec, definition, converter };
  return { usable, problems: [...failing, ...coverage] };
}

function compileSpoke(
  version: VersionSteps,
  where: string,
  from: JsonObject | undefined,
  hub: JsonObject | undefined,
  problems: ConversionProblem[],
): Spoke | undefined {
  const before = problems.length;
  const report = reportTo(problems);
  const toHub = stepsOf(version, 'toHub', where, report);
  const fromHub = stepsOf(version, 'fromHub', where, report);
  // Derived steps are not in the policy, so their problems are reported for the steps that they invert.
  const ofFromHub = version.fromHub === undefined ? [] : problems;
  const spoke = {
    toHub: compileSteps(toHub, `${where}.toHub`, hub, report),
    fromHub: compileSteps(fromHub, `${where}.fromHub`, from, reportTo(ofFromHub)),
  };
  return problems.length === before ? spoke : undefined;
}

const reportTo =
  (problems: ConversionProblem[]): Report =>
  (reason, where, message) =>
    void problems.push({ reason, where, message });

function stepsOf(
  version: VersionSteps,
  direction: 'toHub' | 'fromHub',
  where: string,
  report: Report,
): readonly ConversionStep[] {
  const written = version[direction];
  if (written !== undefined) return written;
  const other = direction === 'toHub' ? 'fromHub' : 'toHub';
  const inverse = invert(version[other] ?? []);
  if (inverse.kind === 'inverse') return inverse.steps;
  const message =
    `required, because ${inverse.verb} in ${other}[${inverse.index}] cannot be inverted automatically ` +
    `(only move and default can); write [] if version ${quote(version.name)} can be converted without steps`;
  report('InvalidPolicy', `${where}.${direction}`, message);
  return [];
}

/** A problem can be temporary, because users cannot update the policy and the CRD at the same time. */
function coverageProblems(
  { hub, versions }: ConversionPolicySpec,
  definition: Definition,
): readonly ConversionProblem[] {
  const crd = groupResourceName(definition);
  const has = new Set(definition.versions.map(({ name }) => name));
  const known = [...has].map(quote).join(', ');
  const problems: ConversionProblem[] = [];
  const report = reportTo(problems);
  const unknownHub = `version ${quote(hub)} not found in ${crd}; choose one of ${known}, or add it there`;
  if (!has.has(hub)) report('UnknownVersion', 'spec.hub', unknownHub);
  for (const [index, { name }] of versions.entries()) {
    const where = `spec.versions[${index}].name`;
    if (name === hub)
      report('InvalidPolicy', where, 'is the hub, whose steps are in the other entries; remove this entry');
    else if (!has.has(name)) {
      const message = `version ${quote(name)} not found in ${crd}, which has ${known}; remove this entry, or add the version there`;
      report('UnknownVersion', where, message);
    }
  }
  const covered = new Set([hub, ...versions.map(({ name }) => name)]);
  for (const { name, served, stored } of definition.versions) {
    if (!(served || stored) || covered.has(name)) continue;
    const message =
      `version ${quote(name)} is missing, and ${crd} ${served ? 'serves it' : 'may have stored objects in it'}; ` +
      `add its steps ({name: ${name}} alone, if its fields equal the fields of the hub)`;
    report('MissingVersion', 'spec.versions', message);
  }
  return problems;
}

interface Side {
  readonly name: string;
  readonly schema: JsonObject | undefined;
}

/** Checks steps against the schemas, because a misspelled path would silently do nothing. */
function fieldProblems(
  { toHub, fromHub }: Spoke,
  where: string,
  spoke: Side,
  hub: Side,
): readonly ConversionProblem[] {
  const touched = [...toHub, ...fromHub].flatMap(({ reads, writes }) => [...reads, ...writes]);
  return [
    ...pathProblems(toHub, spoke, hub),
    ...pathProblems(fromHub, hub, spoke),
    ...typeChanges(spoke, hub, touched, where),
  ];
}

/** A step must read what exists or was written before, and write what exists or is read later. */
function pathProblems(steps: readonly CompiledStep[], from: Side, to: Side): readonly ConversionProblem[] {
  return steps.flatMap(({ where, reads, writes }, index) => {
    const madeBefore = steps.slice(0, index).flatMap((step) => step.writes);
    const takenLater = steps.slice(index + 1).flatMap((step) => step.reads);
    const lost = reads.filter(
      (path) => ![from, to].some((side) => isIn(path, side)) && !overlaps(path, madeBefore),
    );
    const dropped = writes.filter((path) => !isIn(path, to) && !overlaps(path, takenLater));
    return [
      ...lost.map((path) => unknownField(where, path, from, 'the step would never find a value')),
      ...dropped.map((path) =>
        unknownField(where, path, to, 'the API server would drop what the step writes'),
      ),
    ];
  });
}

/** Runs the steps on objects with the fewest fields, for which each expression must have a value. */
function absentProblems(steps: readonly CompiledStep[], { schema }: Side): readonly ConversionProblem[] {
  const found = new Map<string, ConversionProblem>();
  for (const withLists of schema === undefined ? [] : [false, true]) {
    let object: JsonObject = { ...objectIn(minimalValue(schema ?? {}, withLists)), metadata: METADATA };
    // An invented value of a required field may keep a step from writing what a later one reads, and is no key of a map.
    const written = new Set<string | undefined>([undefined, '']);
    for (const { where, run, writes } of steps) {
      try {
        object = run(object, createCelBudget(COST_LIMIT));
      } catch (error) {
        if (!(error instanceof ConversionFailure)) throw error;
        if (!written.has(absentKey(error.cause)))
          found.set(where, { reason: 'InvalidExpression', where, message: error.message });
      }
      for (const name of writes.flatMap(({ fields }) => fields)) written.add(name);
    }
  }
  return [...found.values()];
}

const METADATA = { name: 'a', namespace: 'a', uid: 'a', creationTimestamp: '2026-01-31T12:00:00Z' };

const isIn = ({ segments }: StepPath, { schema }: Side): boolean =>
  schemaAt(schema, segments).kind !== 'unknown';

const unknownField = (where: string, { text }: StepPath, { name }: Side, why: string): ConversionProblem => ({
  reason: 'UnknownField',
  where,
  message: `${text} not found in the schema of version ${name}, so ${why}; fix the path, or add the field there`,
});

const overlaps = ({ segments }: StepPath, others: readonly StepPath[]): boolean =>
  others.some((other) => {
    const length = Math.min(segments.length, other.segments.length);
    return JSON.stringify(segments.slice(0, length)) === JSON.stringify(other.segments.slice(0, length));
  });

function typeChanges(
  spoke: Side,
  hub: Side,
  touched: readonly StepPath[],
  where: string,
): readonly ConversionProblem[] {
  const touches = new Set(
    touched.flatMap(({ segments }) =>
      segments.map((_one, index) => JSON.stringify(segments.slice(0, index + 1))),
    ),
  );
  const whole = new Set(touched.map(({ segments }) => JSON.stringify(segments)));
  const problems: ConversionProblem[] = [];
  const compare = (one: JsonObject, other: JsonObject, segments: readonly Segment[], text: string): void => {
    const key = JSON.stringify(segments);
    if (whole.has(key)) return;
    const [before, after] = [textIn(one, 'type'), textIn(other, 'type')];
    if (!isCompatible(before, after)) {
      if (touches.has(key)) return; // a step handles this field
      const message =
        `${text} is ${withArticle(before)} in version ${spoke.name} and ${withArticle(after)} in ${hub.name}; ` +
        'use set in both directions, or remove it';
      problems.push({ reason: 'TypeChange', where, message });
      return;
    }
    const descend = (below: Segment, path: string, ...keys: readonly string[]) => {
      const [mine, theirs] = [valueIn(one, ...keys), valueIn(other, ...keys)];
      if (isJsonObject(mine) && isJsonObject(theirs)) compare(mine, theirs, [...segments, below], path);
    };
    descend({ kind: 'each' }, `${text}[*]`, 'items');
    for (const name of Object.keys(valueIn(one, 'properties') ?? {})) {
      descend({ kind: 'field', name }, text === '' ? name : `${text}.${name}`, 'properties', name);
    }
  };
  if (spoke.schema !== undefined && hub.schema !== undefined) compare(spoke.schema, hub.schema, [], '');
  return problems;
}

function isCompatible(before: string, after: string): boolean {
  const isNumber = (type: string) => type === 'integer' || type === 'number';
  return before === '' || after === '' || before === after || (isNumber(before) && isNumber(after));
}

const withArticle = (type: string): string => (/^[aeio]/.test(type) ? `an ${type}` : `a ${type}`);
