// suite: shared-plane, sandbox: long
/** Policies for kinds of the core API group, whose name is the empty string. Some ask the authorizer. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { KubeClient } from '../../src/kube/client.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { configMaps, namespaces } from '../../src/kube/well-known.ts';
import { createNamespace, RESTORE_WINDOWS, type Cluster } from '../support/cluster.ts';
import { refusal, seeInForce, startGatehouse, untilRefused, seePhase } from '../support/gatehouse-cluster.ts';
import { admissionPolicy, restoreWindow, configMap, grant, configMapsWith } from '../support/objects.ts';
import { eventually } from '../support/processes.ts';

const RESTORER = { user: 'system:serviceaccount:velero:velero', groups: ['system:masters'] };

let cluster: Cluster;
let restorer: KubeClient;

beforeAll(async () => {
  ({ cluster } = await startGatehouse());
  await createNamespace(cluster, 'shop');
  await cluster.apply(
    policy('parents', {
      immutable: ['data.zone'],
      references: [{ name: 'parent', path: 'data.parent', target: { apiGroup: '', resource: 'configmaps' } }],
    }),
  );
  await seeInForce(cluster, 'parents');
  await untilRefused('a ConfigMap without its parent', 'data.parent', () =>
    cluster.admin.create(configMaps, configMap('probe', { parent: 'missing' }), { dryRun: true }),
  );
  restorer = cluster.impersonate(RESTORER);
});

afterAll(() => cluster.stop());

function policy(name: string, validate: object): KubeObject & { readonly spec: object } {
  return admissionPolicy(name, { match: { apiGroups: [''], resources: ['configmaps'] }, validate });
}

test('a ConfigMap that names another one can only be created after it', async () => {
  const child = configMap('child', { parent: 'mother' });
  await expect(cluster.admin.create(configMaps, child)).rejects.toMatchObject({
    causes: [{ field: 'data.parent', reason: 'FieldValueNotFound' }],
  });
  await cluster.admin.create(configMaps, configMap('mother', {}));
  await cluster.admin.create(configMaps, child);
});

test('the report of a restore names a missing target of the core group', async () => {
  await cluster.admin.create(
    RESTORE_WINDOWS,
    restoreWindow('drill', { principals: [{ user: RESTORER.user }] }),
  );
  await restorer.create(configMaps, configMap('early', { parent: 'late' }));
  await cluster.admin.patchMerge(RESTORE_WINDOWS, { name: 'drill' }, { spec: { close: true } });
  const { status } = await seePhase(cluster, 'drill', 'CompletedWithViolations');
  expect(status?.violations?.items).toMatchObject([
    { object: { name: 'early' }, target: { group: '', resource: 'configmaps', name: 'late' } },
  ]);
});

test('a kind that two API groups serve is checked by the policies for both, whichever group the client uses', async () => {
  const about = (name: string, apiGroup: string, field: string) => {
    const rules = [{ expression: `object.?${field}.orValue('') != '${name}'`, message: `not ${name}` }];
    return admissionPolicy(name, {
      match: { apiGroups: [apiGroup], resources: ['events'] },
      validate: { rules },
    });
  };
  // Only the group differs, so both policies could share a webhook entry.
  await cluster.apply(about('old-events', '', 'message'));
  await cluster.apply(about('new-events', 'events.k8s.io', 'note'));
  const oldEvent = (message: string) =>
    cluster.admin.create(
      { group: '', version: 'v1', resource: 'events', namespaced: true, kind: 'Event' },
      {
        metadata: { namespace: 'shop', generateName: 'e-' },
        involvedObject: { kind: 'Pod', namespace: 'shop', name: 'a' },
        message,
      },
      { dryRun: true },
    );
  const newEvent = (note: string) =>
    cluster.admin.create(
      { group: 'events.k8s.io', version: 'v1', resource: 'events', namespaced: true, kind: 'Event' },
      {
        metadata: { namespace: 'shop', generateName: 'e-' },
        regarding: { kind: 'Pod', namespace: 'shop', name: 'a' },
        note,
        eventTime: '2026-11-21T12:00:00.000000Z',
        type: 'Normal',
        action: 'Test',
        reason: 'Test',
        reportingController: 'test',
        reportingInstance: 'test',
      },
      { dryRun: true },
    );
  for (const [name, create] of [
    ['old-events', oldEvent],
    ['new-events', newEvent],
    ['new-events', oldEvent],
    ['old-events', newEvent],
  ] as const)
    await untilRefused(`the text ${name}`, `not ${name}`, () => create(name));
  await expect(oldEvent('harmless')).resolves.toBeDefined();
});

describe('rules that ask the API server what the requester may do', () => {
  const NAMESPACE = 'asking';
  const NAME = 'release-managers';
  const MESSAGE = 'only release managers change the production channel';
  let alice: KubeClient;

  /** `release` is a verb that no API has: a permission of the policy's own. */
  const POLICY = admissionPolicy(NAME, {
    match: configMapsWith({ suite: NAMESPACE }),
    variables: [
      { name: 'may', expression: "authorizer.requestResource.name(object.metadata.name).check('release')" },
    ],
    validate: {
      rules: [
        {
          name: 'release',
          expression: "object.data.?channel.orValue('') != 'production' || variables.may.allowed()",
          message: MESSAGE,
        },
      ],
    },
    auditAnnotations: [{ key: 'why', valueExpression: 'variables.may.reason()' }],
  });

  beforeAll(async () => {
    await createNamespace(cluster, NAMESPACE);
    await cluster.apply(
      ...grant(
        'asking-writer',
        ['alice'],
        [{ apiGroups: [''], resources: ['configmaps'], verbs: ['create'] }],
      ),
      POLICY,
    );
    alice = await cluster.as('alice');
    await seeInForce(cluster, NAME);
    await untilRefused('a ConfigMap of alice', MESSAGE, () => create(alice, { channel: 'production' }));
  });

  const create = (user: KubeClient, data: Readonly<Record<string, string>>, name = `c-${randomUUID()}`) =>
    user.create<KubeObject>(
      configMaps,
      configMap(name, data, { namespace: NAMESPACE, labels: { suite: NAMESPACE } }),
    );

  test('the admin passes, and a user without the permission is refused', async () => {
    await create(cluster.admin, { channel: 'production' });
    await create(alice, { channel: 'test' });
    expect((await refusal(create(alice, { channel: 'production' }))).message).toContain(MESSAGE);
  });

  test('a user who gets the permission passes immediately, even right after a refusal', async () => {
    const rules = [
      { apiGroups: [''], resources: ['configmaps'], resourceNames: ['ours'], verbs: ['release'] },
    ];
    const refused = () => refusal(create(alice, { channel: 'production' }, 'ours'));
    expect((await refused()).message).toContain(MESSAGE);
    await cluster.apply(...grant('asking-releaser', ['alice'], rules));
    // The authorizer of the API server has a cache of roles, but Gatehouse has none of refusals.
    await eventually('the release', async () => {
      try {
        await create(alice, { channel: 'production' }, 'ours');
        return true;
      } catch {
        return false;
      }
    });
    expect((await refusal(create(alice, { channel: 'production' }, 'theirs'))).message).toContain(MESSAGE);
  });
});

test('a forbidden label of a Namespace is refused through its subresources, if the policy lists them', async () => {
  const resources = ['namespaces', 'namespaces/status', 'namespaces/finalize'];
  const about = (name: string, listed: readonly string[]) =>
    admissionPolicy(name, {
      match: { apiGroups: [''], resources: listed },
      validate: { rules: [{ expression: `object.?metadata.labels[?"${name}"].orValue("") != "x"` }] },
    });
  await cluster.apply(about('listed', resources));
  await cluster.apply(about('unlisted', ['namespaces']));
  await seeInForce(cluster, 'listed');
  const { status } = await seeInForce(cluster, 'unlisted');
  expect(status?.conditions).toContainEqual(
    expect.objectContaining({
      type: 'SubresourcesCovered',
      message: expect.stringContaining('add namespaces/finalize, namespaces/status to') as string,
    }),
  );
  const label = (name: string) => ({ metadata: { labels: { [name]: 'x' } } });
  const target = { name: 'shop' };
  await untilRefused('the label', 'listed', () =>
    cluster.admin.patchMerge(namespaces, target, label('listed'), { dryRun: true }),
  );
  const { message } = await refusal(cluster.admin.patchStatus(namespaces, target, label('listed')));
  expect(message).toContain('listed');
  const found = await cluster.admin.get<KubeObject>(namespaces, target);
  const body = { ...found, metadata: { ...found?.metadata, ...label('listed').metadata } };
  const path = '/api/v1/namespaces/shop/finalize';
  await expect(cluster.adminRest.request({ method: 'PUT', path, body })).rejects.toThrow('listed');
  // What the condition is about: the API server stores it without asking.
  await cluster.admin.patchStatus(namespaces, target, label('unlisted'));
});
