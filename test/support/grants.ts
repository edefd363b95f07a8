/** What the manifests in deploy/ allow Gatehouse, one permission at a time, and what an API server's audit log says it used. */
import type { KubeObject } from '../../src/kube/object.ts';
import type { AuditEvent } from './control-plane.ts';

/** `update gatehouse.dev/restorewindows/status`; behind it the namespace, where a Role gives it: ` in gatehouse-system`. */
export type Permission = string;

interface Rule {
  readonly apiGroups?: readonly string[];
  readonly resources?: readonly string[];
  readonly verbs?: readonly string[];
}

const permission = (verb: string, group: string, resource: string, namespace?: string): Permission =>
  `${verb} ${group === '' ? 'core' : group}/${resource}${namespace === undefined ? '' : ` in ${namespace}`}`;

/** What the ClusterRoles and Roles among these manifests give, without those that only aggregate others. */
export function permissionsIn(manifests: readonly KubeObject[]): ReadonlySet<Permission> {
  const given = manifests
    .filter(({ kind }) => kind === 'ClusterRole' || kind === 'Role')
    .flatMap((role) => {
      const { rules = [], metadata } = role as KubeObject & { readonly rules?: readonly Rule[] }; // by its kind
      return rules.flatMap((rule) => expand(rule, metadata?.namespace));
    });
  return new Set(given);
}

const expand = (
  { apiGroups = [], resources = [], verbs = [] }: Rule,
  namespace: string | undefined,
): readonly Permission[] =>
  apiGroups.flatMap((group) =>
    resources.flatMap((resource) => verbs.map((verb) => permission(verb, group, resource, namespace))),
  );

/** What one user's requests needed that were let through. Each counts for a ClusterRole and, where it has one, for its namespace. */
export function permissionsUsed(events: readonly AuditEvent[], username: string): ReadonlySet<Permission> {
  const used = new Set<Permission>();
  for (const { user, verb, objectRef, annotations } of events) {
    if (user.username !== username || objectRef === undefined || isForbidden(annotations)) continue;
    const { apiGroup = '', resource = '', subresource, namespace } = objectRef;
    const whole = subresource === undefined ? resource : `${resource}/${subresource}`;
    used.add(permission(verb, apiGroup, whole));
    if (namespace !== undefined) used.add(permission(verb, apiGroup, whole, namespace));
  }
  return used;
}

/** The requests of one user that the authorizer refused: `list core/secrets`, each once. */
export function refusedTo(events: readonly AuditEvent[], username: string): readonly Permission[] {
  const refused = events
    .filter(({ user, annotations }) => user.username === username && isForbidden(annotations))
    .map(({ verb, requestURI, objectRef: ref }) =>
      ref === undefined
        ? `${verb} ${requestURI}`
        : permission(verb, ref.apiGroup ?? '', [ref.resource, ref.subresource].filter(Boolean).join('/')),
    );
  return [...new Set(refused)];
}

const isForbidden = (annotations: AuditEvent['annotations']): boolean =>
  annotations?.['authorization.k8s.io/decision'] === 'forbid';
