import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import { tryPath, type Problem } from '../problem.ts';
import type { CompiledMatch, CompiledUnique } from '../compiled-policy.ts';
import { liesBeside } from '../../../json/field-path.ts';
import { writes } from '../../review/request.ts';
import { hasWildcard } from '../match/resource-pattern.ts';
import { deepest } from './unique-key.ts';

/** Compiles the unique values and reports their problems. */
export function compileUnique(
  { validate }: AdmissionPolicySpec,
  match: CompiledMatch,
  problems: Problem[],
): readonly CompiledUnique[] {
  const rules = validate?.unique ?? [];
  if (rules.length > 0) problems.push(...scopeProblems(match));
  return rules.map(({ name, paths: texts, scope = 'Cluster' }, index) => {
    const where = `spec.validate.unique[${index}].paths`;
    const paths = texts.flatMap((text, place) => tryPath(text, `${where}[${place}]`, problems) ?? []);
    const leading = deepest(paths);
    const stray = paths.find((path) => leading !== undefined && !liesBeside(path, leading));
    if (stray !== undefined && leading !== undefined) {
      const message = `${stray.text} and ${leading.text} go over different lists, so it is not clear which of their values belong together: write a rule for each`;
      problems.push({ reason: 'InvalidPath', where, message });
    }
    return { name, scope, paths };
  });
}

function scopeProblems({ operations, resources }: CompiledMatch): readonly Problem[] {
  const problems: Problem[] = [];
  if (!operations.some(writes)) {
    problems.push({
      reason: 'InvalidPolicy',
      where: 'spec.match.operations',
      message: 'has neither CREATE nor UPDATE, so spec.validate.unique would never be checked: add them',
    });
  }
  if (resources.some((resource) => hasWildcard(resource) || resource.includes('/'))) {
    problems.push({
      reason: 'Unsupported',
      where: 'spec.match.resources',
      message:
        'has a wildcard or a subresource, and it has to be known which objects hold unique values: list the resources',
    });
  }
  return problems;
}
