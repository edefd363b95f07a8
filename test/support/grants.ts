/**
 * The permissions that deploy/ grants to Gatehouse, one at a time, and the permissions that it used according to the
 * audit log.
 */
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { AuditEvent } from './control-plane.ts';

/** `update gatehouse.dev/restorewindows/status`; a Role adds its namespace: ` in gatehouse-system`. */
export type Permission = string;

export interface Rule {
  readonly apiGroups?: readonly string[];
  readonly resources?: readonly string[];
  readonly verbs?: readonly string[];
}

/** A ClusterRole, or a Role with its namespace. */
export interface GrantingRole extends KubeObject {
  readonly rules?: readonly Rule[];
}

/** Documentation of one permission. */
export interface Purpose {
  readonly permission: Permission;
  readonly breaks: string;
  readonly request: ExpectedRequest;
}

/** `{name}` and `{namespace}` in the path match any value. */
export interface ExpectedRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'WATCH';
  readonly path: string;
}

const permission = (verb: string, group: string, resource: string, namespace?: string): Permission =>
  `${verb} ${group === '' ? 'core' : group}/${resource}${namespace === undefined ? '' : ` in ${namespace}`}`;

/** The permissions of these ClusterRoles and Roles, without those of ClusterRoles that only aggregate others. */
export function permissionsIn(manifests: readonly KubeObject[]): ReadonlySet<Permission> {
  return new Set(rolesIn(manifests).flatMap(permissionsOf));
}

export const rolesIn = (manifests: readonly KubeObject[]): readonly GrantingRole[] =>
  manifests.filter(({ kind }) => kind === 'ClusterRole' || kind === 'Role');

export const permissionsOf = ({ rules = [], metadata }: GrantingRole): readonly Permission[] =>
  rules.flatMap((rule) => expand(rule, metadata?.namespace));

/** A copy of the role without one permission. */
export function roleWithout(role: GrantingRole, taken: Permission, name: string): GrantingRole {
  const { namespace } = role.metadata ?? {};
  const single = (role.rules ?? []).flatMap(({ apiGroups = [], resources = [], verbs = [] }) =>
    apiGroups.flatMap((group) =>
      resources.flatMap((resource) =>
        verbs.map((verb) => ({ apiGroups: [group], resources: [resource], verbs: [verb] })),
      ),
    ),
  );
  return {
    ...role,
    metadata: { name, ...(namespace === undefined ? {} : { namespace }) },
    rules: single.filter((rule) => !expand(rule, namespace).includes(taken)),
  };
}

/**
 * The rows of the table in docs/hardening.md that gives the purpose of each permission, such as `update
 * leases.coordination.k8s.io`.
 */
export function purposesIn(page: string): readonly Purpose[] {
  const granted =
    /(?<verb>[a-z]+) (?<resource>[a-z]+)(?:\.(?<group>[a-z0-9.-]+))?(?<sub>\/[a-z]+)?(?: in (?<namespace>[a-z-]+))?/;
  const request = /(?<method>[A-Z]+) (?<path>\/[^`]+)/;
  const row = new RegExp(
    `^\\| \`${granted.source}\` +\\| (?<breaks>[^|]+?) +\\| \`${request.source}\` +\\|$`,
    'gm',
  );
  return [...page.matchAll(row)].map(({ groups = {} }) => {
    const {
      verb = '',
      resource = '',
      group = '',
      sub = '',
      namespace,
      breaks = '',
      method,
      path = '',
    } = groups;
    return {
      permission: permission(verb, group, `${resource}${sub}`, namespace),
      breaks,
      // an unknown method matches nothing in the audit log
      request: { method: method as ExpectedRequest['method'], path },
    };
  });
}

/** Whether the audit log contains this request of the user, and the API server authorized it. */
export function wasMade(
  { method, path }: ExpectedRequest,
  verb: string,
  events: readonly AuditEvent[],
  username: string,
): boolean {
  const pattern = path
    .split(/(?:\{\w+\})/)
    .map((part) => part.replaceAll(/[.]/g, '\\.'))
    .join('[^/]+');
  const exact = new RegExp(`^${pattern}$`);
  return events.some(
    (event) =>
      event.user.username === username &&
      event.verb === verb &&
      (method === 'WATCH') === (verb === 'watch') &&
      !isForbidden(event.annotations) &&
      exact.test(event.requestURI.replace(/\?.*$/, '')),
  );
}

const expand = (
  { apiGroups = [], resources = [], verbs = [] }: Rule,
  namespace: string | undefined,
): readonly Permission[] =>
  apiGroups.flatMap((group) =>
    resources.flatMap((resource) => verbs.map((verb) => permission(verb, group, resource, namespace))),
  );

/**
 * Permissions that a user's authorized requests needed. Each request counts for a ClusterRole and for its namespace, if
 * it has one.
 */
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

/** A user's requests that the authorizer refused, without duplicates: `list core/secrets`. */
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
