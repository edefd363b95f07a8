import type { ApiObject } from '../../src/machinery/api-object.ts';

const NAMESPACES = 20;

export const namespaceOf = (index: number): string => `team-${index % NAMESPACES}`;

export const namespaces: readonly string[] = Array.from({ length: NAMESPACES }, (_, index) =>
  namespaceOf(index),
);

/** About 1 KB as JSON. Every twentieth ConfigMap has the same namespace. */
export function configMap(index: number): ApiObject & { readonly data: Readonly<Record<string, string>> } {
  const labels = { app: index % 2 === 0 ? 'a' : 'b', index: String(index) };
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { namespace: namespaceOf(index), name: `settings-${index}`, labels },
    data: { 'log.level': 'info', text: `${index} `.padEnd(760, 'lorem ipsum ') },
  };
}

const GROUP = 'bench.gatehouse.test';

/** The CRD of Widgets: a schema with common constraints and two defaults. */
export const widgetDefinition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: `widgets.${GROUP}` },
  spec: {
    group: GROUP,
    scope: 'Namespaced',
    names: { plural: 'widgets', singular: 'widget', kind: 'Widget', listKind: 'WidgetList' },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        subresources: { status: {} },
        schema: {
          openAPIV3Schema: {
            type: 'object',
            properties: {
              spec: {
                type: 'object',
                required: ['image'],
                properties: {
                  image: { type: 'string', minLength: 1, maxLength: 255 },
                  replicas: { type: 'integer', minimum: 0, maximum: 100, default: 1 },
                  policy: { type: 'string', enum: ['Always', 'Never'], default: 'Always' },
                  settings: { type: 'object', additionalProperties: { type: 'string' } },
                  ports: {
                    type: 'array',
                    'x-kubernetes-list-type': 'map',
                    'x-kubernetes-list-map-keys': ['name'],
                    items: {
                      type: 'object',
                      required: ['name', 'port'],
                      properties: {
                        name: { type: 'string', pattern: '^[a-z]+$' },
                        port: { type: 'integer', minimum: 1, maximum: 65_535 },
                      },
                    },
                  },
                },
              },
              status: { type: 'object', properties: { ready: { type: 'boolean' } } },
            },
          },
        },
      },
    ],
  },
} as const;

export const widgetPath = (index: number): string =>
  `/apis/${GROUP}/v1/namespaces/${namespaceOf(index)}/widgets`;

export function widget(index: number): ApiObject {
  return {
    apiVersion: `${GROUP}/v1`,
    kind: 'Widget',
    metadata: { name: `widget-${index}`, labels: { index: String(index) } },
    spec: {
      image: `registry.test/widget:${index}`,
      settings: { text: `${index} `.padEnd(600, 'lorem ipsum ') },
      ports: [
        { name: 'http', port: 8_080 },
        { name: 'metrics', port: 9_090 },
      ],
    },
  };
}

/** One validating webhook that matches only Widgets. */
export function widgetWebhook(url: string, ca: string) {
  return {
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'ValidatingWebhookConfiguration',
    metadata: { name: 'widgets' },
    webhooks: [
      {
        name: `widgets.${GROUP}`,
        clientConfig: { url, caBundle: Buffer.from(ca).toString('base64') },
        rules: [{ operations: ['CREATE'], apiGroups: [GROUP], apiVersions: ['v1'], resources: ['widgets'] }],
        sideEffects: 'None',
        admissionReviewVersions: ['v1'],
      },
    ],
  };
}
