/** Kinds whose alphabetical order is wrong for a backup tool: `applications` reference `zones`, and one another. */
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { Resource } from '../../src/kube/object.ts';
import { ANY, definitionOf, versionOf, withSpec } from './definitions.ts';
import { admissionPolicy } from './objects.ts';

const GROUP = 'restore.example.com';

const kind = (resource: string, name: string, namespaced: boolean): Resource => ({
  group: GROUP,
  version: 'v1',
  resource,
  kind: name,
  namespaced,
});

export const APPLICATIONS = kind('applications', 'Application', true);
export const ZONES = kind('zones', 'Zone', false);

export interface ApplicationSpec {
  readonly zone?: string;
  /** Name of another Application in the same namespace. */
  readonly parent?: string;
  /** An Application in any namespace. */
  readonly peer?: { readonly namespace: string; readonly name: string; readonly uid?: string };
  /** Immutable. */
  readonly slug?: string;
}

export interface Application extends KubeObject {
  readonly spec: ApplicationSpec;
  readonly status?: object;
}

export const application = (
  namespace: string,
  name: string,
  spec: ApplicationSpec,
  metadata: object = {},
): Application => ({
  apiVersion: `${GROUP}/v1`,
  kind: APPLICATIONS.kind,
  metadata: { namespace, name, ...metadata },
  spec,
});

export const zone = (name: string): KubeObject => ({
  apiVersion: `${GROUP}/v1`,
  kind: ZONES.kind,
  metadata: { name },
});

const text = { type: 'string' };

const definition = (kind: Resource, spec: object) =>
  definitionOf(kind, {
    versions: [versionOf('v1', withSpec(spec, { status: ANY }), { subresources: { status: {} } })],
  });

const role: KubeObject & { readonly rules: readonly object[] } = {
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'ClusterRole',
  metadata: {
    name: 'gatehouse-references-restore',
    labels: { 'gatehouse.dev/aggregate-to-references': 'true' },
  },
  rules: [{ apiGroups: [GROUP], resources: ['applications', 'zones'], verbs: ['get', 'list', 'watch'] }],
};

/** The CRDs, and the ClusterRole that lets Gatehouse read their objects. */
export const kindManifests: readonly KubeObject[] = [
  definition(ZONES, {}),
  definition(APPLICATIONS, {
    zone: text,
    parent: text,
    peer: { type: 'object', properties: { namespace: text, name: text, uid: text } },
    slug: text,
  }),
  role,
];

/** `slugPolicy` refuses this value, also during a restore. */
export const REFUSED_SLUG = 'refused';

const target = (resource: string) => ({ apiGroup: GROUP, resource });

export const applicationPolicy: KubeObject & {
  readonly spec: { readonly match: object; readonly validate: object };
} = admissionPolicy('applications', {
  match: { apiGroups: [GROUP], apiVersions: ['v1'], resources: ['applications'] },
  validate: {
    immutable: ['spec.slug'],
    references: [
      { name: 'zone', path: 'spec.zone', target: target('zones') },
      { name: 'parent', path: 'spec.parent', target: target('applications') },
      {
        name: 'peer',
        path: 'spec.peer.name',
        namespacePath: 'spec.peer.namespace',
        target: target('applications'),
      },
    ],
  },
});

const governed = { match: applicationPolicy.spec.match };

/** Records the owners of Applications. */
export const ownersPolicy: KubeObject & {
  readonly metadata: { readonly name: string };
  readonly spec: object;
} = {
  ...applicationPolicy,
  metadata: { name: 'application-owners' },
  spec: { ...governed, owners: { preserve: true } },
};

/** Corrects the uid of a peer. */
export const uidsPolicy: typeof ownersPolicy = {
  ...applicationPolicy,
  metadata: { name: 'application-uids' },
  spec: {
    ...governed,
    validate: {
      references: [
        {
          ...{ name: 'peer', path: 'spec.peer.name', target: target('applications') },
          ...{ namespacePath: 'spec.peer.namespace', uidPath: 'spec.peer.uid' },
        },
      ],
    },
  },
};

/** Lets Gatehouse write owners and uids. */
export const relinkRole: typeof role = {
  ...role,
  metadata: { ...role.metadata, name: 'gatehouse-relink-restore' },
  rules: [{ apiGroups: [GROUP], resources: ['applications'], verbs: ['patch'] }],
};

/** Without it, a sweep finds everything that admission would refuse, so restorers pass while no replica answers. */
export const slugPolicy: typeof applicationPolicy = {
  ...applicationPolicy,
  metadata: { name: 'slugs' },
  spec: {
    match: applicationPolicy.spec.match,
    validate: {
      rules: [
        {
          expression: `!has(object.spec.slug) || object.spec.slug != '${REFUSED_SLUG}'`,
          message: 'this slug is reserved',
        },
      ],
    },
  },
};
