/** Objects of the examples, and types of built-in kinds that tests read. */
import type { RestoreWindow, RestoreWindowSpec } from '../../src/api/restore-window.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';

export {
  datacenter,
  server,
  text,
  type SecretObject,
  type Server,
} from '../../src/cli/sandbox/tour-objects.ts';

export interface WebhookConfigurationObject extends KubeObject {
  readonly webhooks?: readonly {
    readonly name: string;
    readonly clientConfig: { readonly caBundle?: string; readonly service?: { readonly path?: string } };
    readonly rules?: readonly object[];
  }[];
}

export interface EventObject extends KubeObject {
  readonly type: string;
  readonly reason: string;
  readonly message: string;
  readonly involvedObject: { readonly kind: string; readonly name: string; readonly uid?: string };
}

export interface ConfigMap extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}

export interface Claim extends KubeObject {
  readonly spec: { readonly values: readonly string[]; readonly holder: { readonly name: string } };
}

export interface LeaseObject extends KubeObject {
  readonly spec?: { readonly holderIdentity?: string };
}

export interface Conditioned extends KubeObject {
  readonly status?: {
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly reason: string;
      readonly message: string;
    }[];
  };
}

export function condition(object: Conditioned, type: string) {
  return object.status?.conditions?.find((one) => one.type === type);
}

export const isTrue =
  (type: string) =>
  (object: Conditioned): boolean =>
    condition(object, type)?.status === 'True';

/** The webhooks for kinds that policies govern, without the webhooks for Gatehouse's own kinds. */
export function entriesOfPolicies(
  configuration: WebhookConfigurationObject | undefined,
): NonNullable<WebhookConfigurationObject['webhooks']> {
  return (configuration?.webhooks ?? []).filter(({ name }) => !name.startsWith('own-'));
}

type Policy<Spec = object> = KubeObject & {
  readonly metadata: { readonly name: string };
  readonly spec: Spec;
};

export const admissionPolicy = <Spec extends object>(name: string, spec: Spec): Policy<Spec> => ({
  apiVersion: 'gatehouse.dev/v1alpha1',
  kind: 'AdmissionPolicy',
  metadata: { name },
  spec,
});

export const serversPolicy = (name: string, spec: object): Policy =>
  admissionPolicy(name, {
    match: { apiGroups: ['infra.example.com'], apiVersions: ['v1'], resources: ['servers'] },
    ...spec,
  });

/** The scope of a policy on ConfigMaps with these labels. */
export const configMapsWith = (matchLabels: Readonly<Record<string, string>>) => ({
  apiGroups: [''],
  apiVersions: ['v1'],
  resources: ['configmaps'],
  objectSelector: { matchLabels },
});

/** How a policy says that a Server references its Datacenter. */
export const toDatacenter = {
  name: 'datacenter',
  path: 'spec.datacenter',
  target: { apiGroup: 'infra.example.com', resource: 'datacenters' },
};

export const inShop = (name: string) => ({ namespace: 'shop', name });

export const configMap = (name: string, data: ConfigMap['data'] = {}, metadata: object = {}) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { namespace: 'shop', name, ...metadata },
  data,
});

/** In the namespace `shop`, unless `metadata` says otherwise. */
export function deployment(name: string, replicas: number, metadata: object = {}, container: object = {}) {
  const labels = { app: name };
  const spec = { containers: [{ name: 'app', image: 'example.com/app:1', ...container }] };
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { namespace: 'shop', name, ...metadata },
    spec: { replicas, selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
  };
}

/** For an hour, unless `spec` says otherwise. */
export const restoreWindow = (
  name: string,
  spec: Partial<RestoreWindowSpec> = {},
  metadata: object = {},
): RestoreWindow => ({
  apiVersion: 'gatehouse.dev/v1alpha1',
  kind: 'RestoreWindow',
  metadata: { name, ...metadata },
  spec: {
    principals: [{ user: 'restorer' }],
    expiresAt: new Date(Date.now() + 3_600_000).toISOString(),
    ...spec,
  },
});

/** A role with these rules, bound to the users: in one namespace, or in the whole cluster. */
export function grant(
  name: string,
  users: readonly string[],
  rules: readonly object[],
  namespace?: string,
): readonly KubeObject[] {
  const apiGroup = 'rbac.authorization.k8s.io';
  const kind = namespace === undefined ? 'ClusterRole' : 'Role';
  const common = { apiVersion: `${apiGroup}/v1`, metadata: { name, ...(namespace && { namespace }) } };
  const subjects = users.map((user) => ({ apiGroup, kind: 'User', name: user }));
  return [
    { ...common, kind, ...{ rules } },
    { ...common, kind: `${kind}Binding`, ...{ roleRef: { apiGroup, kind, name }, subjects } },
  ];
}

const aggregatedRole =
  (to: 'references' | 'actions', usual: readonly string[]) =>
  (name: string, apiGroup: string, resources: readonly string[], verbs = usual): KubeObject =>
    ({
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRole',
      metadata: { name: `gatehouse-${to}-${name}`, labels: { [`gatehouse.dev/aggregate-to-${to}`]: 'true' } },
      rules: [{ apiGroups: [apiGroup], resources, verbs }],
    }) as KubeObject;

export const referencesRole = aggregatedRole('references', ['get', 'list', 'watch']);

export const actionsRole = aggregatedRole('actions', ['delete', 'patch']);
