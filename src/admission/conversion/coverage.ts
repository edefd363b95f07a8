import type { ConversionPolicySpec } from '../../api/conversion-policy.ts';
import { groupResourceName } from '../../json/kube-object.ts';
import { quote } from '../../json/printable.ts';
import type { ConversionProblem } from './conversion-problem.ts';
import type { Definition } from './definition.ts';

/**
 * Whether the policy and the CustomResourceDefinition have the same versions. These problems may mend themselves: whichever of
 * the two is changed first, the other follows.
 */
export function coverageProblems(
  { hub, versions }: ConversionPolicySpec,
  definition: Definition,
): readonly ConversionProblem[] {
  const crd = groupResourceName(definition);
  const has = new Set(definition.versions.map(({ name }) => name));
  const known = [...has].map(quote).join(', ');
  const problems: ConversionProblem[] = [];
  if (!has.has(hub)) {
    problems.push({
      reason: 'UnknownVersion',
      where: 'spec.hub',
      message: `${crd} has no version ${quote(hub)}: choose one of ${known}, or add it there`,
    });
  }
  for (const [index, { name }] of versions.entries()) {
    const where = `spec.versions[${index}].name`;
    if (name === hub) {
      problems.push({
        reason: 'InvalidPolicy',
        where,
        message: 'is the hub, which is converted by the steps of the others: leave it out',
      });
    } else if (!has.has(name)) {
      problems.push({
        reason: 'UnknownVersion',
        where,
        message: `${crd} has no version ${quote(name)}: it has ${known}; leave it out, or add it there`,
      });
    }
  }
  const covered = new Set([hub, ...versions.map(({ name }) => name)]);
  const missing = definition.versions.filter(
    ({ name, served, stored }) => (served || stored) && !covered.has(name),
  );
  for (const { name, served } of missing) {
    problems.push({
      reason: 'MissingVersion',
      where: 'spec.versions',
      message:
        `${crd} ${served ? 'serves' : 'may have stored objects in'} version ${quote(name)}, which has no steps here: ` +
        `add it ({name: ${name}} alone, if its fields are those of the hub)`,
    });
  }
  return problems;
}
