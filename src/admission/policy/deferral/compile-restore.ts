import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import { parseDuration } from '../../../api/duration.ts';
import { principalProblems } from '../../../api/principals.ts';
import type { CompiledPolicy } from '../compiled-policy.ts';
import type { Problem } from '../problem.ts';

const DEFAULT_GRACE = '5m';

export function compileRestore(
  { restore = {}, initiallyDeferred, audit }: AdmissionPolicySpec,
  problems: Problem[],
): Pick<CompiledPolicy, 'restore' | 'initiallyDeferred'> {
  if (initiallyDeferred !== undefined && audit === false) {
    const message = 'references that are deferred are looked at by the audit: leave it on';
    problems.push({ where: 'spec.audit', message, reason: 'InvalidPolicy' });
  }
  const { references, unique, schema, rules, onTargetDelete, immutable, mutations } = restore;
  return {
    restore: {
      defers: {
        references: references !== 'Enforce',
        unique: unique !== 'Enforce',
        schema: schema === 'Defer',
        rules: rules === 'Defer',
      },
      // Whoever wants references to hold during a restore wants their targets to stay.
      defersTargetDelete:
        onTargetDelete === undefined && references !== 'Enforce' ? undefined : onTargetDelete === 'Defer',
      skipsImmutable: immutable === 'Skip',
      skipsMutations: mutations !== 'Apply',
    },
    initiallyDeferred: compileStanding(initiallyDeferred, problems),
  };
}

function compileStanding(
  standing: AdmissionPolicySpec['initiallyDeferred'],
  problems: Problem[],
): CompiledPolicy['initiallyDeferred'] {
  if (standing === undefined) return undefined;
  const { principals, grace = DEFAULT_GRACE } = standing;
  for (const problem of principalProblems(principals, 'spec.initiallyDeferred.principals')) {
    const [where = '', ...message] = problem.split(': ');
    problems.push({ where, message: message.join(': '), reason: 'InvalidPolicy' });
  }
  const graceMs = parseDuration(grace);
  if (graceMs === undefined) {
    const message = `"${grace}" is not a duration such as 5m or 1h30m`;
    problems.push({ where: 'spec.initiallyDeferred.grace', message, reason: 'InvalidPolicy' });
  }
  return { principals, graceMs: graceMs ?? 0 };
}
