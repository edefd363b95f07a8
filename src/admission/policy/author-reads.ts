/** What a policy reads, deletes and changes in the cluster: its author needs the same permissions. */
import type { AdmissionPolicySpec } from '../../api/admission-policy.ts';
import { toGroupResource } from '../../api/policy-match.ts';
import { type JsonValue, uniqueBy } from '../../json/json.ts';
import { toCanonicalText } from '../../json/json-text.ts';
import { type GroupResource, groupResourceName } from '../../json/kube-object.ts';
import { quote, shorten } from '../../json/printable.ts';
import { hasWildcard } from './match/resource-pattern.ts';
import { isSecret, NAMESPACES } from './object-ref.ts';

export interface AuthorRead extends GroupResource {
  /** The field that directs the read. */
  readonly field: string;
  /** `list`: all objects of a governed kind. `delete` and `patch`: those that reference a deleted target. */
  readonly verb: 'get' | 'list' | 'delete' | 'patch';
  /** Undefined: all namespaces, or cluster-scoped. */
  readonly namespace: string | undefined;
  /** Undefined: any name. */
  readonly name: string | undefined;
}

/** Each distinct read costs a SubjectAccessReview. */
export const MAX_AUTHOR_READS = 64;

/** Governed objects choose the targets of references, so these reads cover all names and namespaces. */
export function readsOf(spec: AdmissionPolicySpec): readonly AuthorRead[] {
  const { params, validate: { references = [] } = {} } = spec;
  const any = { namespace: undefined, name: undefined };
  const get = { verb: 'get', ...any } as const;
  const reads: readonly AuthorRead[] = [
    ...(params === undefined
      ? []
      : [
          {
            ...get,
            ...toGroupResource(params),
            field: 'spec.params',
            namespace: params.namespace,
            name: params.name,
          },
        ]),
    ...references.map(({ target }, index) => ({
      ...get,
      ...toGroupResource(target),
      field: `spec.validate.references[${index}].target`,
    })),
    // CEL has one spelling for a variable. A match inside a string only costs one more question.
    ...(canonical(spec).includes('namespaceObject') ? [{ ...get, ...NAMESPACES, field: 'spec' }] : []),
    ...(checksStored(spec)
      ? governedBy(spec).map((kind) => ({ ...kind, ...any, field: 'spec.match', verb: 'list' as const }))
      : []),
    ...references.flatMap(({ onTargetDelete = 'Allow' }, index) => {
      if (onTargetDelete === 'Allow' || onTargetDelete === 'Restrict') return [];
      const verb = onTargetDelete === 'Cascade' ? ('delete' as const) : ('patch' as const);
      const field = `spec.validate.references[${index}].onTargetDelete`;
      return governedBy(spec).map((kind) => ({ ...kind, ...any, field, verb }));
    }),
  ];
  return uniqueBy(reads, ({ verb, group, resource, namespace, name }) =>
    JSON.stringify([verb, group, resource, namespace, name]),
  );
}

/** Audits and sweeps skip subresources and wildcards. */
function governedBy({ match: { apiGroups, resources } }: AdmissionPolicySpec): readonly GroupResource[] {
  const kinds = resources.filter((resource) => !resource.includes('/') && !hasWildcard(resource));
  return apiGroups.flatMap((group) =>
    kinds.map((resource) => toGroupResource({ apiGroup: group, resource })),
  );
}

/** Whether an audit, a sweep or an index reads the governed objects. */
function checksStored({ validate = {}, defaults = [], owners, restore }: AdmissionPolicySpec): boolean {
  const { references = [], unique = [], rules = [], schema } = validate;
  const uids = restore?.uids ?? [];
  const checks = [references, unique, rules, defaults, uids].flat().length;
  return checks > 0 || schema !== undefined || owners?.preserve === true;
}

/** What a policy reads and whom it tells. Users who lack its permissions can change the rest, for example to disable a check. */
export function disclosingText(spec: AdmissionPolicySpec): string {
  const part = Object.entries(spec).filter(([field]) => !DISCLOSES_NOTHING.has(field));
  // Stores hold integers beyond 2^53 rounded, reviews hold them exactly: both must give the same text.
  return canonical(JSON.parse(canonical(Object.fromEntries(part))) as object);
}

const DISCLOSES_NOTHING = new Set([
  'failurePolicy',
  'timeoutSeconds',
  'enforcement',
  'existingViolations',
  'exceptions',
  'policyExceptions',
]);

const canonical = (value: object): string => toCanonicalText(value as JsonValue); // from JSON

export const readsSecrets = (reads: readonly AuthorRead[]): boolean => reads.some(isSecret);

/** Gatehouse's own Secrets include the CA key, so no policy reads them, regardless of its author's permissions. */
export const isOwnSecret = (
  read: GroupResource & { readonly namespace: string | undefined },
  ownNamespace: string,
) => isSecret(read) && read.namespace === ownNamespace;

export function describeRead({ verb, namespace, name, ...kind }: AuthorRead): string {
  const which = name === undefined ? '' : ` ${quote(name)}`;
  const where = namespace === undefined ? 'all namespaces' : `namespace ${quote(namespace)}`;
  return `${verb} ${shorten(groupResourceName(kind), 256)}${which} in ${where}`;
}

export function forbiddenReadMessage(read: AuthorRead): string {
  const { group, resource, verb, namespace } = read;
  const role = namespace === undefined ? 'ClusterRole' : `Role in ${shorten(namespace, 63)}`;
  const rule = `{apiGroups: [${quote(group)}], resources: [${shorten(resource, 253)}], verbs: [${verb}]}`;
  return `you lack permission to ${describeRead(read)}, which this policy requires of its author: ask for a ${role} with the rule ${rule}, or let a user with this permission write the policy`;
}
