/** Compiles a ConversionPolicy into a converter. Reports all problems of a policy at once. */
import type {
  ConversionPolicy,
  ConversionStep,
  VersionSteps,
  ConversionPolicySpec,
} from '../../api/conversion-policy.ts';
import type { JsonObject } from '../../json/json.ts';
import { quote } from '../../json/printable.ts';
import { compileSteps } from './compile-steps.ts';
import type { Converter } from './converter.ts';
import type { ConversionProblem } from './conversion-problem.ts';
import type { Definition } from './definition.ts';
import { fieldProblems } from './field-problems.ts';
import { invert } from './step.ts';
import { convertByPlan, type Spoke } from './policy-converter.ts';
import { groupResourceName } from '../../json/kube-object.ts';

export interface CompiledConversion {
  /** The name of the policy. */
  readonly name: string;
  readonly generation: number;
  /** The spec as written, for `status.inForce`. */
  readonly spec: ConversionPolicy['spec'];
  /** The definition at compile time. */
  readonly definition: Definition;
  readonly converter: Converter;
}

/**
 * `usable` is undefined if the steps are invalid. With `problems`, it converts between the versions without problems;
 * without, it converts between all versions of the definition.
 */
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
  }
  if (problems.length > 0 || !schemas.has(spec.hub))
    return { usable: undefined, problems: [...problems, ...coverage] };
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
  return { usable, problems: coverage };
}

function compileSpoke(
  version: VersionSteps,
  where: string,
  from: JsonObject | undefined,
  hub: JsonObject | undefined,
  problems: ConversionProblem[],
): Spoke | undefined {
  const before = problems.length;
  const toHub = stepsOf(version, 'toHub', where, problems);
  const fromHub = stepsOf(version, 'fromHub', where, problems);
  // Derived steps have no location in the policy: report their problems only where the steps that they invert are.
  const ofFromHub = version.fromHub === undefined ? [] : problems;
  const spoke = {
    toHub: compileSteps(toHub, `${where}.toHub`, hub, problems),
    fromHub: compileSteps(fromHub, `${where}.fromHub`, from, ofFromHub),
  };
  return problems.length === before ? spoke : undefined;
}

/** The steps as written, or the inverse of the other direction. */
function stepsOf(
  version: VersionSteps,
  direction: 'toHub' | 'fromHub',
  where: string,
  problems: ConversionProblem[],
): readonly ConversionStep[] {
  const written = version[direction];
  if (written !== undefined) return written;
  const other = direction === 'toHub' ? 'fromHub' : 'toHub';
  const inverse = invert(version[other] ?? []);
  if (inverse.kind === 'inverse') return inverse.steps;
  problems.push({
    reason: 'InvalidPolicy',
    where: `${where}.${direction}`,
    message:
      `write it: ${inverse.verb} in ${other}[${inverse.index}] has no inverse that could be derived ` +
      `(only move and default have one); [] says that nothing is to be done for version ${quote(version.name)}`,
  });
  return [];
}

/**
 * Compares the versions of the policy with those of the CustomResourceDefinition. Such a problem can be temporary: the
 * user cannot update both objects at the same time.
 */
function coverageProblems(
  { hub, versions }: ConversionPolicySpec,
  definition: Definition,
): readonly ConversionProblem[] {
  const crd = groupResourceName(definition);
  const has = new Set(definition.versions.map(({ name }) => name));
  const known = [...has].map(quote).join(', ');
  const problems: ConversionProblem[] = [];
  if (!has.has(hub)) {
    const message = `${crd} has no version ${quote(hub)}: choose one of ${known}, or add it there`;
    problems.push({ reason: 'UnknownVersion', where: 'spec.hub', message });
  }
  for (const [index, { name }] of versions.entries()) {
    const where = `spec.versions[${index}].name`;
    if (name === hub) {
      const message = 'is the hub, which is converted by the steps of the others: leave it out';
      problems.push({ reason: 'InvalidPolicy', where, message });
    } else if (!has.has(name)) {
      const message = `${crd} has no version ${quote(name)}: it has ${known}; leave it out, or add it there`;
      problems.push({ reason: 'UnknownVersion', where, message });
    }
  }
  const covered = new Set([hub, ...versions.map(({ name }) => name)]);
  for (const { name, served, stored } of definition.versions) {
    if (!(served || stored) || covered.has(name)) continue;
    const message =
      `${crd} ${served ? 'serves' : 'may have stored objects in'} version ${quote(name)}, which has no steps here: ` +
      `add it ({name: ${name}} alone, if its fields are those of the hub)`;
    problems.push({ reason: 'MissingVersion', where: 'spec.versions', message });
  }
  return problems;
}
