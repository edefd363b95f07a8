/** Objects of the examples, and what tests read of built-in kinds. */
import type { KubeObject } from '../../src/kube/object.ts';

export interface Server extends KubeObject {
  readonly spec: { readonly datacenter: string; readonly tier?: string };
}

export function server(namespace: string, name: string, datacenter: string, metadata: object = {}): Server {
  return {
    apiVersion: 'infra.example.com/v1',
    kind: 'Server',
    metadata: { namespace, name, ...metadata },
    spec: { datacenter },
  };
}

export function datacenter(name: string): KubeObject {
  return { apiVersion: 'infra.example.com/v1', kind: 'Datacenter', metadata: { name } };
}

export interface SecretObject extends KubeObject {
  readonly type?: string;
  readonly data?: Readonly<Record<string, string>>;
}

/** The text of one key of a Secret. */
export function text(secret: SecretObject, key: string): string {
  return Buffer.from(secret.data?.[key] ?? '', 'base64').toString('utf8');
}

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
