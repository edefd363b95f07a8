/** Objects of the examples, and types of built-in kinds that tests read. */
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
  }[];
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

/** A policy on Servers; `spec` extends it. */
export function serversPolicy(name: string, spec: object): KubeObject {
  return {
    apiVersion: 'gatehouse.dev/v1alpha1',
    kind: 'AdmissionPolicy',
    metadata: { name },
    spec: {
      match: { apiGroups: ['infra.example.com'], apiVersions: ['v1'], resources: ['servers'] },
      ...spec,
    },
  } as KubeObject;
}

/** Lets Gatehouse read a kind that a policy references. */
export function referencesRole(name: string, apiGroup: string, resources: readonly string[]): KubeObject {
  return {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRole',
    metadata: {
      name: `gatehouse-references-${name}`,
      labels: { 'gatehouse.dev/aggregate-to-references': 'true' },
    },
    rules: [{ apiGroups: [apiGroup], resources, verbs: ['get', 'list', 'watch'] }],
  } as KubeObject;
}

/** Lets the leader delete and change a kind after the deletion of a target. */
export function actionsRole(name: string, apiGroup: string, resources: readonly string[]): KubeObject {
  return {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRole',
    metadata: {
      name: `gatehouse-actions-${name}`,
      labels: { 'gatehouse.dev/aggregate-to-actions': 'true' },
    },
    rules: [{ apiGroups: [apiGroup], resources, verbs: ['delete', 'patch'] }],
  } as KubeObject;
}
