/** Manifests as a user writes them: the kinds of deploy/examples and built-in kinds. */

interface Meta {
  readonly labels?: Readonly<Record<string, string>>;
  readonly finalizers?: readonly string[];
  readonly ownerReferences?: readonly object[];
}

export const serverManifest = (name: string, spec: object, meta: Meta = {}) => ({
  apiVersion: 'infra.example.com/v1',
  kind: 'Server',
  metadata: { name, ...meta },
  spec,
});

export const datacenterManifest = (name: string, spec: object, meta: Meta = {}) => ({
  apiVersion: 'infra.example.com/v1',
  kind: 'Datacenter',
  metadata: { name, ...meta },
  spec,
});

export const configMapManifest = (name: string, data: Readonly<Record<string, string>>, meta: Meta = {}) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, ...meta },
  data,
});

export const serviceManifest = (name: string, ports: readonly object[], meta: Meta = {}) => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name, ...meta },
  spec: { selector: { app: name }, ports },
});

export const deploymentManifest = (name: string, replicas: number) => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name },
  spec: {
    replicas,
    selector: { matchLabels: { app: name } },
    template: {
      metadata: { labels: { app: name } },
      spec: { containers: [{ name: 'main', image: `${name}:1` }] },
    },
  },
});
