/** What a policy reads from the cluster, and what it deletes and changes: its author must be permitted to do the same. */
import type { AdmissionPolicySpec } from '../../api/admission-policy.ts';
import { toGroupResource } from '../../api/policy-match.ts';
import type { JsonValue } from '../../json/json.ts';
import { toCanonicalText } from '../../json/json-text.ts';
import { groupResourceName, type GroupResource } from '../../json/kube-object.ts';
import { uniqueBy } from '../../json/objects.ts';
import { quote, shorten } from '../../json/printable.ts';
import { hasWildcard } from './match/resource-pattern.ts';
import { isSecret, NAMESPACES } from './object-ref.ts';

export interface AuthorRead extends GroupResource {
  /** The field that directs the read. */
  readonly field: string;
  /**
   * `get`: objects that the policy or a governed object names. `list`: all objects of a governed kind. `delete` and
   * `patch`: those of them that name a deleted target.
   */
  readonly verb: 'get' | 'list' | 'delete' | 'patch';
  /** Undefined: all namespaces, or cluster-scoped. */
  readonly namespace: string | undefined;
  /** Undefined: any name. */
  readonly name: string | undefined;
}

/** The limit for distinct reads: each costs the author of the policy a SubjectAccessReview. */
export const MAX_AUTHOR_READS = 64;

/**
 * The distinct reads of a policy. Governed objects choose the targets of references, so these reads have no name and no
 * namespace. Audits and sweeps check all objects of the governed kinds, and counts and messages disclose what they hold.
 */
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
    // The name of a variable cannot be written in another way in CEL. A match in a text costs one more question.
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

/** No audit and no sweep reads subresources and wildcards. */
function governedBy({ match: { apiGroups, resources } }: AdmissionPolicySpec): readonly GroupResource[] {
  const kinds = resources.filter((resource) => !resource.includes('/') && !hasWildcard(resource));
  return apiGroups.flatMap((group) =>
    kinds.map((resource) => toGroupResource({ apiGroup: group, resource })),
  );
}

/** Whether an audit, a sweep or an index reads the governed objects. */
function checksStored({ validate = {}, defaults = [], owners }: AdmissionPolicySpec): boolean {
  const { references = [], unique = [], rules = [], schema } = validate;
  const checks = references.length + unique.length + rules.length + defaults.length;
  return checks > 0 || schema !== undefined || owners?.preserve === true;
}

/**
 * The part of a spec that decides what a policy reads and whom it tells, as canonical JSON. A user who may not read it all may change the
 * rest, for example to disable a check in an emergency.
 */
export function disclosingText(spec: AdmissionPolicySpec): string {
  const part = Object.entries(spec).filter(([field]) => !DISCLOSES_NOTHING.has(field));
  // Stores hold integers beyond 2^53 rounded, reviews hold them exactly: both must give the same text.
  return canonical(JSON.parse(canonical(Object.fromEntries(part))) as object);
}

const DISCLOSES_NOTHING = new Set([
  'failurePolicy',
  'timeoutSeconds',
  'enforcement',
  'exceptions',
  'policyExceptions',
]);

const canonical = (value: object): string => toCanonicalText(value as JsonValue); // from JSON

export const readsSecrets = (reads: readonly AuthorRead[]): boolean => reads.some(isSecret);

/** A read of Gatehouse's own Secrets, which include the CA key: no policy makes it, whatever its author may read. */
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
  const start =
    verb === 'get' || verb === 'list'
      ? `you may not ${describeRead(read)}, and a policy reads only what its author may read: ask for a`
      : `you may not ${describeRead(read)}, and a policy deletes and changes only what its author may delete and patch: ask for a`;
  return `${start} ${role} with the rule ${rule}, or have a user with this permission write the policy`;
}
