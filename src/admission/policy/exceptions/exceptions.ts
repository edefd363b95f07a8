import { labelsOf } from '../object-metadata.ts';
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import type { CompiledException, CompiledPolicy } from '../compiled-policy.ts';
import { matchesSelector } from '../../../json/label-selector.ts';
import { trySelector, type Report } from '../problem.ts';
import { quote } from '../../../json/printable.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { isJsonObject } from '../../../json/json.ts';
import type { KubeObject } from '../../../json/kube-object.ts';

/** Names that select a whole group of checks. */
const CHECK_GROUPS = ['schema', 'immutable', 'references', 'unique', 'rules'] as const;

/** Compiles the exceptions and reports their problems. */
export function compileExceptions(spec: AdmissionPolicySpec, report: Report): readonly CompiledException[] {
  const { references = [], unique = [], rules = [] } = spec.validate ?? {};
  const known = new Set<string | undefined>([
    ...CHECK_GROUPS,
    ...[...references, ...unique, ...rules].map(({ name }) => name),
  ]);
  return (spec.exceptions ?? []).map((exception, index): CompiledException => {
    const where = `spec.exceptions[${index}]`;
    const { name, users, groups, namespaces, names, checks, objectSelector: labels } = exception;
    const objectSelector = trySelector(labels, `${where}.objectSelector`, report);
    for (const check of checks ?? []) {
      if (known.has(check)) continue;
      const message = `${quote(check)} is no check of this policy: write ${CHECK_GROUPS.join(', ')}, or the name of a rule`;
      report(`${where}.checks`, message);
    }
    if ([users, groups, namespaces, names, labels].every((part) => part === undefined))
      report(where, 'covers everything: say users, groups, namespaces, names or objectSelector');
    const expiresAt = exception.expiresAt === undefined ? undefined : Date.parse(exception.expiresAt);
    if (Number.isNaN(expiresAt)) {
      const message = `${quote(exception.expiresAt)} is not a time such as 2026-12-31T00:00:00Z`;
      report(`${where}.expiresAt`, message);
    }
    return { name, expiresAt, users, groups, namespaces, names, objectSelector, checks };
  });
}

/** Which checks of a policy a request is exempt from. */
export interface Exemption {
  /** By the name of a group of checks (`rules`) or of one check. */
  readonly covers: (group: string, name?: string) => boolean;
  /** The names of the exceptions that apply, for the audit log. */
  readonly names: readonly string[];
}

const NONE: Exemption = { covers: () => false, names: [] };

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
    covers: (group, name) =>
      applying.some(
        ({ checks }) =>
          checks === undefined || checks.includes(group) || (name !== undefined && checks.includes(name)),
      ),
    names: applying.map(({ name }) => name),
  };
}

/** Reviews of stored objects have no user. */
export const NO_USER = { username: '', uid: '', groups: [], extra: {} };

/**
 * Which checks of a policy a stored object is exempt from, in audits and sweeps. Exceptions that name users or groups
 * do not apply: they exempt a write, and the next write may come from another user.
 *
 * @param now in milliseconds since 1970
 */
export function exemptionOfStored(
  policy: Pick<CompiledPolicy, 'exceptions'>,
  object: KubeObject,
  now: number,
): Exemption {
  const { name, namespace } = object.metadata ?? {};
  const json = isJsonObject(object) ? object : undefined;
  return exemptionOf(policy, { userInfo: NO_USER, namespace, name, object: json, oldObject: undefined }, now);
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
