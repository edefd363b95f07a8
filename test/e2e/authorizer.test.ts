// suite: shared-plane, sandbox: long
/** Rules that ask the API server what the requester may do. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { KubeObject } from '../../src/json/kube-object.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { configMaps } from '../../src/kube/well-known.ts';
import { createNamespace, type Cluster } from '../support/cluster.ts';
import { refusal, seeInForce, startGatehouse, untilRefused } from '../support/gatehouse-cluster.ts';
import { eventually } from '../support/processes.ts';
import { admissionPolicy, grant } from '../support/objects.ts';

const NAMESPACE = 'asking';
const NAME = 'release-managers';
const MESSAGE = 'only release managers change the production channel';

/** `release` is a verb that no API has: a permission of the policy's own. */
const POLICY = admissionPolicy(NAME, {
  match: {
    apiGroups: [''],
    apiVersions: ['v1'],
    resources: ['configmaps'],
    objectSelector: { matchLabels: { suite: NAMESPACE } },
  },
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
      {
        name: 'health',
        expression: "!has(object.data.health) || authorizer.path('/metrics').check('get').allowed()",
      },
    ],
  },
  auditAnnotations: [{ key: 'why', valueExpression: 'variables.may.reason()' }],
});

let cluster: Cluster;
let alice: KubeClient;

beforeAll(async () => {
  ({ cluster } = await startGatehouse());
  await createNamespace(cluster, NAMESPACE);
  await cluster.apply(
    ...grant('asking-writer', ['alice'], [{ apiGroups: [''], resources: ['configmaps'], verbs: ['create'] }]),
    POLICY,
  );
  alice = await cluster.as('alice');
  await seeInForce(cluster, NAME);
  await untilRefused('a ConfigMap of alice', MESSAGE, () => create(alice, { channel: 'production' }));
});

afterAll(() => cluster.stop());

const create = (user: KubeClient, data: Readonly<Record<string, string>>, name = `c-${randomUUID()}`) =>
  user.create<KubeObject>(configMaps, {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name, namespace: NAMESPACE, labels: { suite: NAMESPACE } },
    ...{ data },
  });

test('the admin passes, and a user without the permission is refused', async () => {
  await create(cluster.admin, { channel: 'production' });
  await create(alice, { channel: 'test' });
  expect((await refusal(create(alice, { channel: 'production' }))).message).toContain(MESSAGE);
});

test('a user who gets the permission passes at once, though a refusal is fresh', async () => {
  const rules = [{ apiGroups: [''], resources: ['configmaps'], resourceNames: ['ours'], verbs: ['release'] }];
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

test('paths can be asked about, too', async () => {
  await create(cluster.admin, { health: 'x' });
  const { message } = await refusal(create(alice, { health: 'x' }));
  expect(message).toContain("authorizer.path('/metrics')");
});
