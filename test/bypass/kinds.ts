/** The kinds of the bypass search, and one policy of each check. `oracle.ts` repeats the checks in plain TypeScript. */
import type { KubeObject } from '../../src/json/kube-object.ts';
import { SYSTEM_NAMESPACE } from '../support/cluster.ts';
import { ANY, definitionOf, versionOf, withSpec } from '../support/definitions.ts';
import { admissionPolicy, referencesRole } from '../support/objects.ts';

export const GROUP = 'bypass.example.com';
export const MARK = 'bypass.example.com/marked';
export const HANDLED = 'bypass.example.com/handled';
export const HOLD = 'bypass.example.com/hold';
export const MOST_REPLICAS = 5;
export const COLORS: readonly unknown[] = ['red', 'green'];

/** Users of the search. All may write everything in the sense of RBAC. */
export const USERS = {
  /** Every check applies. */
  alice: 'alice',
  /** Every check applies: the name resembles the restorer's. */
  lookalike: 'Restorer',
  /** The principal of a window that is open throughout: references and unique values are deferred. */
  restorer: 'restorer',
  /** An exception covers the schema. */
  mover: 'mover',
} as const;
export type UserName = keyof typeof USERS;

type Manifest = KubeObject & { readonly spec: object };

const text = { type: 'string' };
const integer = { type: 'integer' };

const shared = {
  bin: text,
  spare: text,
  home: text,
  serial: text,
  tier: text,
  owner: text,
  zone: text,
  note: text,
  units: integer,
  replicas: integer,
  capacity: integer,
  pad: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
};
const FIELDS: Readonly<Record<string, object>> = {
  v1: { ...shared, color: text, level: integer },
  v1beta1: { ...shared, colour: text },
};
const scale = { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas' };

const definition = (resource: string, kind: string, conversion?: object): Manifest => {
  const versions = Object.entries(FIELDS).map(([name, fields]) =>
    versionOf(name, withSpec(fields, { status: ANY }), {
      storage: name === 'v1',
      subresources: { status: {}, scale },
    }),
  );
  const { metadata, ...rest } = definitionOf(
    { group: GROUP, version: 'v1', resource, kind, namespaced: true },
    { ...(conversion && { conversion }), versions },
  );
  const annotations = { 'gatehouse.dev/inject-cabundle': 'true' };
  return { ...rest, metadata: { ...metadata, ...(conversion && { annotations }) } };
};

/**
 * The CRDs, the conversion between the versions of Widgets, and the ClusterRole that lets Gatehouse read their objects.
 *
 * @param port of the Service of Gatehouse
 */
export function kindManifests(port: number): readonly KubeObject[] {
  const path = `/convert/widgets.${GROUP}`;
  const service = { namespace: SYSTEM_NAMESPACE, name: 'gatehouse', port, path };
  const conversion = {
    strategy: 'Webhook',
    webhook: { conversionReviewVersions: ['v1'], clientConfig: { service } },
  };
  const toHub = [{ move: { from: 'spec.colour', to: 'spec.color' } }];
  const converted: Manifest = {
    apiVersion: 'gatehouse.dev/v1alpha1',
    kind: 'ConversionPolicy',
    metadata: { name: 'bypass-widgets' },
    spec: {
      target: { apiGroup: GROUP, resource: 'widgets' },
      hub: 'v1',
      versions: [{ name: 'v1beta1', toHub }],
    },
  };
  return [
    definition('widgets', 'Widget', conversion),
    definition('bins', 'Bin'),
    referencesRole('bypass', GROUP, ['widgets', 'bins']),
    converted,
  ];
}

/** The modules of the handlers folder: a mutation and a check that no policy has. */
export const handlerModules: Readonly<Record<string, string>> = {
  'notes.ts': `
    interface Widget { metadata: { labels?: Record<string, string> }; spec?: { note?: string } }
    export default defineHandler<Widget>({
      match: { apiGroups: ['${GROUP}'], apiVersions: ['v1'], resources: ['widgets'] },
      timeoutSeconds: 30,
      mutate(draft) { draft.metadata.labels = { ...draft.metadata.labels, '${HANDLED}': 'yes' }; },
      validate(widget, { deny }) { if (widget.spec?.note === 'secret') deny('a note is no secret', { field: 'spec.note' }); },
    });`,
};

const policy = (name: string, rest: object): Manifest =>
  admissionPolicy(`bypass-${name}`, { timeoutSeconds: 30, ...rest });

const own = (resources: readonly string[], rest: object = {}) => ({
  match: { apiGroups: [GROUP], resources, ...rest },
});
const target = { apiGroup: GROUP, resource: 'bins' };
const replicas = (path: string) => ({
  name: 'replicas',
  expression: `!has(object.${path}) || object.${path} <= ${MOST_REPLICAS}`,
  message: 'too many replicas',
});

const widgets = policy('widgets', {
  // The API server converts requests of v1beta1.
  ...own(['widgets'], { apiVersions: ['v1'] }),
  defaults: [{ path: 'spec.tier', value: 'standard' }],
  mutations: [{ name: 'mark', expression: `{"metadata": {"labels": {"${MARK}": "yes"}}}` }],
  validate: {
    schema: {
      properties: { spec: { required: ['color'], properties: { color: { enum: COLORS } } } },
      required: ['spec'],
    },
    immutable: ['spec.zone'],
    unique: [{ name: 'serial', paths: ['spec.serial'], scope: 'Namespace' }],
    references: [
      { name: 'bin', path: 'spec.bin', optional: false, target },
      { name: 'spare', path: 'spec.spare', target },
      { name: 'home', path: 'spec.home', target, onTargetDelete: 'Restrict' },
    ],
    rules: [
      {
        name: 'fits',
        expression: '!has(object.spec.units) || object.spec.units <= refs.bin.spec.capacity',
        message: 'does not fit the bin',
        fieldPath: 'spec.units',
      },
      {
        name: 'owner',
        expression: '!has(object.spec.owner) || object.spec.owner != "root"',
        message: 'root owns no widgets',
      },
      {
        name: 'level',
        expression:
          'oldObject == null || !has(oldObject.spec.level) || (has(object.spec.level) && object.spec.level >= oldObject.spec.level)',
        message: 'the level never falls',
      },
      replicas('spec.replicas'),
    ],
  },
  exceptions: [
    { name: 'names', reason: 'the search tests exceptions', names: ['exempt-*'], checks: ['owner'] },
    { name: 'users', reason: 'the search tests exceptions', users: [USERS.mover], checks: ['schema'] },
  ],
});

/** Widgets and Pods whose name starts with `keep`, and Widgets with the label `keep`, cannot be deleted. */
const KEPT = 'a kept object stays';

export const policyManifests: readonly Manifest[] = [
  widgets,
  policy('scale', {
    ...own(['widgets/scale']),
    validate: { rules: [replicas('spec.replicas')] },
  }),
  policy('status', {
    ...own(['widgets/status']),
    validate: {
      rules: [
        {
          name: 'phase',
          expression: '!has(object.status) || !has(object.status.phase) || object.status.phase != "broken"',
          message: 'a widget is never broken',
        },
      ],
    },
  }),
  policy('keep', {
    ...own(['widgets'], { operations: ['DELETE'] }),
    validate: {
      rules: [
        {
          name: 'keep',
          expression: '!has(oldObject.metadata.labels) || !("keep" in oldObject.metadata.labels)',
          message: KEPT,
        },
      ],
    },
  }),
  policy('pods', {
    match: { apiGroups: [''], resources: ['pods'], operations: ['DELETE'] },
    validate: { rules: [{ expression: '!oldObject.metadata.name.startsWith("keep")', message: KEPT }] },
  }),
  policy('evictions', {
    match: { apiGroups: [''], resources: ['pods/eviction'], operations: ['CREATE'] },
    validate: { rules: [{ expression: '!request.name.startsWith("keep")', message: KEPT }] },
  }),
  policy('deployments', {
    failurePolicy: 'Ignore',
    match: { apiGroups: ['apps'], resources: ['deployments'] },
    validate: {
      rules: [
        {
          name: 'verdict',
          expression:
            'has(object.metadata.labels) && "verdict" in object.metadata.labels && object.metadata.labels.verdict == "good"',
          message: 'only good ones',
        },
        replicas('spec.replicas'),
      ],
    },
  }),
  policy('deployments-scale', {
    failurePolicy: 'Ignore',
    match: { apiGroups: ['apps'], resources: ['deployments/scale'] },
    validate: { rules: [replicas('spec.replicas')] },
  }),
];

/** A window for the restorer that stays open during the whole search. */
export const restoreWindow = (): Manifest => ({
  apiVersion: 'gatehouse.dev/v1alpha1',
  kind: 'RestoreWindow',
  metadata: { name: 'bypass' },
  spec: {
    principals: [{ user: USERS.restorer }],
    expiresAt: new Date(Date.now() + 20 * 3_600_000).toISOString(),
    reason: 'the bypass search',
  },
});
