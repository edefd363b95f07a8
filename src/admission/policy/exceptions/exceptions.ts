import { labelsOf } from '../object-metadata.ts';
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import type { CompiledException, CompiledPolicy } from '../compiled-policy.ts';
import { normaliseSelector, matchesSelector } from '../../../json/label-selector.ts';
import type { Problem } from '../problem.ts';
import { quote } from '../../../json/printable.ts';
import type { AdmissionRequest } from '../../review/request.ts';

/** Names that select a whole group of checks. */
export const CHECK_GROUPS = ['schema', 'immutable', 'references', 'unique', 'rules'] as const;

/** Compiles the exceptions and reports their problems. */
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

/** Which checks of a policy a request is exempt from. */
export interface Exemption {
  /** By the name of a group of checks (`rules`) or of one check. */
  readonly spares: (group: string, name?: string) => boolean;
  /** The names of the exceptions that apply, for the audit log. */
  readonly names: readonly string[];
}

const NONE: Exemption = { spares: () => false, names: [] };

/** The parts of a request that exceptions match. */
type Excusable = Pick<AdmissionRequest, 'userInfo' | 'namespace' | 'name' | 'object' | 'oldObject'>;

/** @param now in milliseconds since 1970 */
export function exemptionOf(
  { exceptions }: Pick<CompiledPolicy, 'exceptions'>,
  request: Excusable,
  now: number,
): Exemption {
  if (exceptions.length === 0) return NONE;
  const applying = exceptions.filter((exception) => applies(exception, request, now));
  if (applying.length === 0) return NONE;
  return {
    spares: (group, name) =>
      applying.some(
        ({ checks }) =>
          checks === undefined || checks.includes(group) || (name !== undefined && checks.includes(name)),
      ),
    names: applying.map(({ name }) => name),
  };
}

function applies(
  { expiresAt, users, groups, namespaces, names, objectSelector }: CompiledException,
  { userInfo, namespace, name, object, oldObject }: Excusable,
  now: number,
): boolean {
  return (
    (expiresAt === undefined || now < expiresAt) &&
    (users === undefined || isListed(users, userInfo.username)) &&
    (groups === undefined || userInfo.groups.some((group) => groups.includes(group))) &&
    (namespaces === undefined || (namespace !== undefined && isListed(namespaces, namespace))) &&
    (names === undefined || (name !== undefined && isListed(names, name))) &&
    matchesSelector(objectSelector, labelsOf(object ?? oldObject))
  );
}

function isListed(patterns: readonly string[], text: string): boolean {
  return patterns.some((pattern) =>
    pattern.endsWith('*') ? text.startsWith(pattern.slice(0, -1)) : text === pattern,
  );
}
