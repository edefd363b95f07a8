/** The permissions that deploy/ grants to Gatehouse, and those that it used according to the audit log. */
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { AuditEvent } from './control-plane.ts';

/** `update gatehouse.dev/restorewindows/status`, then ` named gatehouse-serving`, then ` in gatehouse-system`. */
export type Permission = string;

export interface Rule {
  readonly apiGroups?: readonly string[];
  readonly resources?: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs?: readonly string[];
}

export interface GrantingRole extends KubeObject {
  readonly rules?: readonly Rule[];
}

interface Binding extends KubeObject {
  readonly roleRef?: { readonly kind: string; readonly name: string };
  readonly subjects?: readonly { readonly name: string }[];
}

export interface Purpose {
  readonly permission: Permission;
  readonly request: ExpectedRequest;
}

/** `{name}` and `{namespace}` in the path match any value. The path of a list may have a fieldSelector. */
export interface ExpectedRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'WATCH';
  readonly path: string;
}

const permission = (
  verb: string,
  group: string,
  resource: string,
  { name, namespace }: { readonly name?: string | undefined; readonly namespace?: string | undefined } = {},
): Permission =>
  `${verb} ${group === '' ? 'core' : group}/${resource}` +
  (name === undefined ? '' : ` named ${name}`) +
  (namespace === undefined ? '' : ` in ${namespace}`);

export const rolesIn = (manifests: readonly KubeObject[]): readonly GrantingRole[] =>
  manifests.filter(({ kind }) => kind === 'ClusterRole' || kind === 'Role');

/** The roles that the manifests bind to this account. Roles get their namespace, as from kustomize. */
export function rolesBoundTo(
  account: string,
  manifests: readonly KubeObject[],
  namespace: string,
): readonly GrantingRole[] {
  const bindings: readonly Binding[] = manifests.filter((one: Binding) =>
    one.subjects?.some(({ name }) => name === account),
  );
  return rolesIn(manifests)
    .filter(({ kind, metadata }) =>
      bindings.some(({ roleRef }) => roleRef?.kind === kind && roleRef?.name === metadata?.name),
    )
    .map((role) => (role.kind === 'Role' ? { ...role, metadata: { ...role.metadata, namespace } } : role));
}

export const aggregated = (manifests: readonly KubeObject[]): readonly GrantingRole[] =>
  rolesIn(manifests).filter(
    ({ metadata }) => metadata?.labels?.['gatehouse.dev/aggregate-to-references'] === 'true',
  );

export const permissionsOf = ({ rules = [], metadata }: GrantingRole): readonly Permission[] =>
  rules.flatMap((rule) => expand(rule, metadata?.namespace));

/** The rows of the table in docs/reference/permissions.md that gives the purpose of each permission. */
export function purposesIn(page: string, account: string): readonly Purpose[] {
  const section = page.split(/^#+ /m).find((one) => one.startsWith(`The account \`${account}\`\n`)) ?? '';
  const granted =
    /(?<verb>[a-z]+) (?<resource>[a-z]+)(?:\.(?<group>[a-z0-9.-]+))?(?<sub>\/[a-z]+)?(?: named (?<name>[a-z.:/-]+))?(?: in (?<namespace>[a-z-]+))?/;
  const request = /(?<method>[A-Z]+) (?<path>\/[^`]+)/;
  const row = new RegExp(`^\\| \`${granted.source}\` +\\| [^|]+ +\\| \`${request.source}\` +\\|$`, 'gm');
  return [...section.matchAll(row)].map(({ groups = {} }) => {
    const { verb = '', resource = '', group = '', sub = '', name, namespace, method, path = '' } = groups;
    return {
      permission: permission(verb, group, `${resource}${sub}`, { name, namespace }),
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
  const [plain = '', selector] = path.split('?fieldSelector=');
  const pattern = plain
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
      exact.test(event.requestURI.replace(/\?.*$/, '')) &&
      (selector === undefined || queryOf(event).get('fieldSelector') === selector),
  );
}

const queryOf = ({ requestURI }: AuditEvent): URLSearchParams =>
  new URLSearchParams(requestURI.replace(/^[^?]*\??/, ''));

/** The name that the authorizer sees, even for a list or watch of one object. */
const nameOf = (event: AuditEvent): string | undefined =>
  event.objectRef?.name ?? /^metadata\.name=([^,]+)$/.exec(queryOf(event).get('fieldSelector') ?? '')?.[1];

const expand = (
  { apiGroups = [], resources = [], verbs = [], resourceNames }: Rule,
  namespace: string | undefined,
): readonly Permission[] =>
  apiGroups.flatMap((group) =>
    resources.flatMap((resource) =>
      verbs.flatMap((verb) =>
        (resourceNames ?? [undefined]).map((name) => permission(verb, group, resource, { name, namespace })),
      ),
    ),
  );

/** Permissions that a user's authorized requests needed: with and without namespace and name. */
export function permissionsUsed(events: readonly AuditEvent[], username: string): ReadonlySet<Permission> {
  const used = new Set<Permission>();
  for (const event of events) {
    const { user, verb, objectRef, annotations } = event;
    if (user.username !== username || objectRef === undefined || isForbidden(annotations)) continue;
    const { apiGroup = '', resource = '', subresource, namespace } = objectRef;
    const whole = subresource === undefined ? resource : `${resource}/${subresource}`;
    for (const name of [undefined, nameOf(event)])
      for (const place of [undefined, namespace])
        used.add(permission(verb, apiGroup, whole, { name, namespace: place }));
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
