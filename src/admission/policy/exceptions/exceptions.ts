import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import type { CompiledException } from '../compiled-policy.ts';
import { normaliseSelector } from '../../../json/label-selector.ts';
import type { Problem } from '../problem.ts';
import { quote } from '../../../json/printable.ts';

/** Names of whole groups of checks, beside the names of single ones. */
export const CHECK_GROUPS = ['schema', 'immutable', 'references', 'unique', 'rules'] as const;

/** The exceptions, and what is wrong with them. */
export function compileExceptions(
  spec: AdmissionPolicySpec,
  problems: Problem[],
): readonly CompiledException[] {
  const known = new Set<string>([...CHECK_GROUPS, ...namesOfChecks(spec)]);
  return (spec.exceptions ?? []).map((exception, index): CompiledException => {
    const where = `spec.exceptions[${index}]`;
    const { name, users, groups, namespaces, names, checks } = exception;
    const selector = normaliseSelector(exception.objectSelector, `${where}.objectSelector`);
    problems.push(...selector.problems.map((problem) => ({ reason: 'InvalidPolicy' as const, ...problem })));
    const report = (field: string, message: string) => {
      problems.push({ reason: 'InvalidPolicy', where: `${where}${field}`, message });
    };
    for (const check of checks ?? []) {
      if (known.has(check)) continue;
      report(
        '.checks',
        `${quote(check)} is no check of this policy: write ${CHECK_GROUPS.join(', ')}, or the name of a rule`,
      );
    }
    const narrows = [users, groups, namespaces, names, exception.objectSelector].some(
      (part) => part !== undefined,
    );
    if (!narrows) report('', 'covers everything: say users, groups, namespaces, names or objectSelector');
    const expiresAt = exception.expiresAt === undefined ? undefined : Date.parse(exception.expiresAt);
    if (Number.isNaN(expiresAt))
      report('.expiresAt', `${quote(exception.expiresAt)} is not a time such as 2026-12-31T00:00:00Z`);
    return { name, expiresAt, users, groups, namespaces, names, objectSelector: selector.selector, checks };
  });
}

function namesOfChecks({ validate = {} }: AdmissionPolicySpec): readonly string[] {
  return [...(validate.references ?? []), ...(validate.unique ?? []), ...(validate.rules ?? [])].flatMap(
    ({ name }) => (name === undefined ? [] : [name]),
  );
}
