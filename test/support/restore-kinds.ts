/** Kinds whose alphabetical order is wrong for a backup tool: `applications` reference `zones`, and one another. */
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { Resource } from '../../src/kube/object.ts';
import { ANY, definitionOf, resourceOf, versionOf, withSpec } from './definitions.ts';
import { admissionPolicy, referencesRole } from './objects.ts';

const GROUP = 'restore.example.com';

export const APPLICATIONS = resourceOf(GROUP, 'applications', 'Application');
export const ZONES = resourceOf(GROUP, 'zones', 'Zone', false);

export interface ApplicationSpec {
  readonly zone?: string;
  readonly parent?: string;
  readonly peer?: { readonly namespace: string; readonly name: string; readonly uid?: string };
  /** A map of anything. */
  readonly links?: object;
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

export const kindManifests: readonly KubeObject[] = [
  definition(ZONES, {}),
  definition(APPLICATIONS, {
    zone: text,
    parent: text,
    peer: { type: 'object', properties: { namespace: text, name: text, uid: text } },
    links: ANY,
    slug: text,
  }),
  referencesRole('restore', GROUP, ['applications', 'zones']),
];

/** `slugPolicy` refuses this value, also during a restore. */
export const REFUSED_SLUG = 'refused';
const UNRESERVED = `!has(object.spec.slug) || object.spec.slug != '${REFUSED_SLUG}'`;

const target = (resource: string) => ({ apiGroup: GROUP, resource });
const peer = {
  name: 'peer',
  path: 'spec.peer.name',
  namespacePath: 'spec.peer.namespace',
  target: target('applications'),
};

export const applicationPolicy = admissionPolicy('applications', {
  match: { apiGroups: [GROUP], apiVersions: ['v1'], resources: ['applications'] },
  validate: {
    immutable: ['spec.slug'],
    references: [
      { name: 'zone', path: 'spec.zone', target: target('zones') },
      { name: 'parent', path: 'spec.parent', target: target('applications') },
      peer,
    ],
  },
});

const governed = { match: applicationPolicy.spec.match };

export const ownersPolicy = admissionPolicy('application-owners', {
  ...governed,
  owners: { preserve: true },
});

export const uidsPolicy = admissionPolicy('application-uids', {
  ...governed,
  validate: { references: [{ ...peer, uidPath: 'spec.peer.uid' }] },
  restore: { uids: ['spec.links[*].owner', 'spec.links[*].refs[*].uid'] },
});

export const relinkRole = referencesRole('relink-restore', GROUP, ['applications'], ['patch']);

/** Without it, a sweep finds everything that admission would refuse, so restorers pass while no replica answers. */
export const slugPolicy = admissionPolicy('slugs', {
  ...governed,
  validate: { rules: [{ expression: UNRESERVED, message: 'this slug is reserved' }] },
});
