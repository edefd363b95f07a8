/** `gatehouse review` judges objects exactly like a cluster that contains the same manifests. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { stringify } from 'yaml';

import type { ReviewFlags } from '../../src/cli/review/flags.ts';
import { UnusableInput } from '../../src/cli/review/input.ts';
import { reviewObjects } from '../../src/cli/review/review.ts';
import type { AdmissionPolicySpec } from '../../src/api/admission-policy.ts';
import { ANY, definitionOf, versionOf, withSpec } from '../support/definitions.ts';
import { writeFiles } from '../support/review-command.ts';

const GROUP = 'infra.example.com';
const NOW = new Date('2026-11-21T12:00:00Z');
const match = { apiGroups: [GROUP], resources: ['servers'] };
const datacenter = {
  name: 'datacenter',
  path: 'spec.datacenter',
  target: { apiGroup: GROUP, resource: 'datacenters' },
};

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'gatehouse-review-'));
});

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

const crd = (kind: string, namespaced: boolean, spec: object): object =>
  definitionOf(
    { group: GROUP, version: 'v1', resource: `${kind.toLowerCase()}s`, kind, namespaced },
    {
      versions: ['v1', 'v1beta1'].map((name) =>
        versionOf(name, withSpec(spec, { status: ANY }), {
          storage: name === 'v1',
          subresources: { status: {} },
        }),
      ),
    },
  );

const STRING = { type: 'string' };
const CRDS = [
  crd('Server', true, {
    datacenter: STRING,
    serial: STRING,
    tier: { type: 'string', default: 'standard' },
    units: { type: 'integer', maximum: 100 },
    id: { type: 'integer', format: 'int64' },
  }),
  crd('Datacenter', false, { capacity: { type: 'integer', default: 3 } }),
];

const object = (kind: string, metadata: object, spec: object = {}, version = 'v1'): object => ({
  apiVersion: `${GROUP}/${version}`,
  kind,
  metadata,
  spec,
});
const server = (name: string, spec: object, metadata: object = {}) =>
  object('Server', { name, namespace: 'shop', ...metadata }, spec);
const policy = (spec: Omit<AdmissionPolicySpec, 'match'> & { match?: object }, name = 'servers'): object => ({
  apiVersion: 'gatehouse.dev/v1alpha1',
  kind: 'AdmissionPolicy',
  metadata: { name },
  spec: { match, ...spec },
});
const namespace = (name: string, labels: object): object => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name, labels },
});

interface Inputs {
  readonly policies: readonly object[];
  readonly objects: readonly object[] | string;
  readonly old?: readonly object[];
  readonly existing?: readonly object[];
  readonly crds?: readonly object[];
  readonly flags?: Partial<ReviewFlags>;
}

async function review({ policies, objects, old, existing = [], crds = CRDS, flags = {} }: Inputs) {
  const yaml = (all: readonly object[]) =>
    all.map((each) => stringify(each, { version: '1.1' })).join('---\n');
  writeFiles(folder, {
    'p.yaml': yaml(policies),
    'f.yaml': typeof objects === 'string' ? objects : yaml(objects),
    'old.yaml': yaml(old ?? []),
    'existing.yaml': yaml([...existing, ...crds]),
  });
  const path = (name: string) => [join(folder, name)];
  const { reviewed, notes } = await reviewObjects(
    {
      output: 'json',
      policies: path('p.yaml'),
      filename: path('f.yaml'),
      existing: path('existing.yaml'),
      ...(old === undefined ? {} : { old: path('old.yaml') }),
      ...flags,
    },
    { recursive: false, standardInput: () => '' },
    { handlers: [], ownNamespace: 'gatehouse-system', now: NOW },
  );
  return {
    notes,
    outcomes: reviewed.map(({ result }) => result),
    verdicts: reviewed.map(({ result }) => result.verdict),
  };
}

test('objects under review can refer to each other, and to existing objects', async () => {
  const { verdicts } = await review({
    policies: [policy({ validate: { references: [datacenter] } })],
    existing: [object('Datacenter', { name: 'muc1' })],
    objects: [
      server('a', { datacenter: 'muc1' }),
      server('b', { datacenter: 'fra1' }),
      server('c', { datacenter: 'ber1' }),
      object('Datacenter', { name: 'fra1' }),
    ],
  });
  expect(verdicts).toEqual(['allowed', 'allowed', 'denied', 'unchecked']);
});

test('an object that is being created does not exist yet, so it cannot refer to itself', async () => {
  const peer = { name: 'peer', path: 'spec.serial', target: { apiGroup: GROUP, resource: 'servers' } };
  const { verdicts } = await review({
    policies: [policy({ validate: { references: [peer] } })],
    objects: [server('a', { serial: 'a' }), server('b', { serial: 'a' })],
  });
  expect(verdicts).toEqual(['denied', 'allowed']);
});

test('rules see the defaults of the definition and the changes of policies, also in referenced objects', async () => {
  const { outcomes } = await review({
    policies: [
      policy({
        mutations: [{ name: 'serial', expression: "{'spec': {'serial': object.metadata.name + '-1'}}" }],
        validate: {
          references: [datacenter],
          rules: [
            {
              expression:
                "object.spec.tier == 'standard' && object.spec.serial == object.metadata.name + '-1'",
            },
            { expression: 'object.spec.units <= refs.datacenter.spec.capacity', message: 'too small' },
          ],
        },
      }),
      policy(
        { match: { ...match, resources: ['datacenters'] }, defaults: [{ path: 'spec.capacity', value: 9 }] },
        'capacity',
      ),
    ],
    objects: [
      server('a', { datacenter: 'fra1', units: 3 }),
      server('b', { datacenter: 'fra1', units: 4 }),
      object('Datacenter', { name: 'fra1' }),
    ],
  });
  expect(outcomes.map(({ verdict, messages }) => [verdict, messages])).toEqual([
    ['allowed', []],
    ['denied', ['too small (policy servers)']],
    // The CRD's default comes first, so the policy has nothing to add.
    ['allowed', []],
  ]);
  expect(outcomes[0]?.object).toMatchObject({ spec: { tier: 'standard', serial: 'a-1' } });
  expect(outcomes[0]?.patch).toEqual([{ op: 'add', path: '/spec/serial', value: 'a-1' }]);
  expect(outcomes[2]?.patch).toEqual([]);
});

test('a violation of the definition is denied with the message of the API server, and an unknown field causes a warning', async () => {
  const { outcomes } = await review({
    policies: [
      policy({
        mutations: [
          { name: 'many', expression: "{'spec': {'units': 500}}", condition: "object.metadata.name == 'c'" },
        ],
      }),
    ],
    objects: [server('a', { units: 'two' }), server('b', { colour: 'red' }), server('c', {})],
  });
  expect(outcomes.map(({ verdict }) => verdict)).toEqual(['denied', 'warned', 'denied']);
  expect(outcomes[0]).toMatchObject({
    refusal: { code: 422, reason: 'Invalid' },
    causes: [{ field: 'spec.units' }],
  });
  expect(outcomes[1]?.warnings).toEqual(['unknown field "spec.colour"']);
  // The schema is checked again after the mutation.
  expect(outcomes[2]?.messages[0]).toContain('spec.units in body should be less than or equal to 100');
});

test('with --old, an object in both sets is updated, and the others are created', async () => {
  const { outcomes } = await review({
    policies: [
      policy({
        validate: {
          immutable: ['spec.datacenter'],
          rules: [{ expression: "request.operation == 'UPDATE'", message: 'created' }],
        },
      }),
    ],
    old: [server('a', { datacenter: 'fra1' }), server('b', { datacenter: 'fra1' })],
    objects: [
      server('a', { datacenter: 'muc1' }),
      server('b', { datacenter: 'fra1', units: 1 }),
      server('c', {}),
    ],
  });
  expect(outcomes.map(({ messages }) => messages.join())).toEqual([
    expect.stringContaining('cannot be changed to "muc1"'),
    '',
    'created (policy servers)',
  ]);
});

test('the review fails without a policy or a handler', async () => {
  await expect(review({ policies: [], objects: [server('a', {})] })).rejects.toThrow(
    'no AdmissionPolicy and no handler in the input: pass policies with -p',
  );
});

test('objects that configure Gatehouse are not reviewed', async () => {
  await expect(review({ policies: [], objects: [policy({})] })).rejects.toThrow(
    /f\.yaml: nothing to review: all objects configure Gatehouse$/,
  );
});

test('a unique value can occur in only one of all the objects in the input', async () => {
  const { outcomes } = await review({
    policies: [policy({ validate: { unique: [{ name: 'serial', paths: ['spec.serial'] }] } })],
    existing: [server('old', { serial: 's1' })],
    objects: [
      server('a', { serial: 's1' }),
      server('b', { serial: 's2' }),
      server('c', { serial: 's2' }),
      server('d', { serial: 's3' }),
    ],
  });
  expect(outcomes.map(({ verdict }) => verdict)).toEqual(['denied', 'denied', 'denied', 'allowed']);
  expect(outcomes.map(({ messages }) => messages[0]).slice(0, 2)).toEqual([
    expect.stringContaining('"s1" is held by servers.infra.example.com "old" in namespace "shop"'),
    expect.stringContaining('"s2" is held by servers.infra.example.com "c"'),
  ]);
});

test('selectors match labels of Namespaces in the input, or else the name of the Namespace', async () => {
  const rules = [{ expression: 'false', message: 'no' }];
  const { verdicts } = await review({
    policies: [
      policy(
        { match: { ...match, namespaceSelector: { matchLabels: { tier: 'gold' } } }, validate: { rules } },
        'by-label',
      ),
      policy(
        {
          match: { ...match, namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'named' } } },
          validate: { rules },
        },
        'by-name',
      ),
      policy(
        { match: { ...match, objectSelector: { matchLabels: { app: 'web' } } }, validate: { rules } },
        'by-object',
      ),
    ],
    existing: [namespace('golden', { tier: 'gold' })],
    objects: [
      server('a', {}, { namespace: 'golden' }),
      server('b', {}, { namespace: 'named' }),
      server('c', {}, { namespace: 'other' }),
      server('d', {}, { namespace: 'other', labels: { app: 'web' } }),
      server('e', {}, { namespace: 'gatehouse-system', labels: { app: 'web' } }),
    ],
  });
  expect(verdicts).toEqual(['denied', 'denied', 'unchecked', 'denied', 'unchecked']);
});

test('a rule that only an API server can evaluate is left out, with a note', async () => {
  const may = "authorizer.group('').resource('pods').check('get').allowed()";
  const { notes, verdicts } = await review({
    policies: [
      policy({
        match,
        validate: { rules: [{ name: 'may', expression: may }, { expression: 'object.spec.units < 9' }] },
      }),
    ],
    objects: [server('a', { units: 1 }), server('b', { units: 10 })],
  });
  expect(verdicts).toEqual(['allowed', 'denied']);
  expect(notes).toContain(
    'AdmissionPolicy servers: rule may is not reviewed: only an API server can answer authorizer',
  );
});

test('a policy for one version judges objects of the others, as the API server converts them', async () => {
  const { outcomes } = await review({
    policies: [
      policy({
        match: { ...match, apiVersions: ['v1'] },
        defaults: [{ path: 'spec.serial', value: 's' }],
        validate: { rules: [{ expression: "object.apiVersion == 'infra.example.com/v1'" }] },
      }),
    ],
    objects: [object('Server', { name: 'a', namespace: 'shop' }, {}, 'v1beta1')],
  });
  expect(outcomes[0]).toMatchObject({
    verdict: 'allowed',
    object: { apiVersion: `${GROUP}/v1beta1`, spec: { serial: 's' } },
  });
});

test('a ConversionPolicy in the input converts objects if the definition calls a webhook', async () => {
  const definition = crd('Server', true, { tier: STRING, level: STRING }) as { spec: object };
  const webhook = {
    clientConfig: { url: 'https://gatehouse.example.com' },
    conversionReviewVersions: ['v1'],
  };
  const crds = [
    { ...definition, spec: { ...definition.spec, conversion: { strategy: 'Webhook', webhook } } },
  ];
  const conversion = {
    apiVersion: 'gatehouse.dev/v1alpha1',
    kind: 'ConversionPolicy',
    metadata: { name: 'servers' },
    spec: {
      target: { apiGroup: GROUP, resource: 'servers' },
      hub: 'v1',
      versions: [
        {
          name: 'v1beta1',
          toHub: [{ move: { from: 'spec.level', to: 'spec.tier' } }],
          fromHub: [{ move: { from: 'spec.tier', to: 'spec.level' } }],
        },
      ],
    },
  };
  const gold = policy({
    match: { ...match, apiVersions: ['v1'] },
    validate: { rules: [{ expression: "object.spec.tier == 'gold'", message: 'only gold' }] },
  });
  const objects = ['gold', 'lead'].map((level, n) =>
    object('Server', { name: `s${n}`, namespace: 'shop' }, { level }, 'v1beta1'),
  );
  expect((await review({ policies: [gold, conversion], crds, objects })).verdicts).toEqual([
    'allowed',
    'denied',
  ]);
  const { outcomes } = await review({ policies: [gold], crds, objects });
  expect(outcomes[0]?.messages[0]).toContain(
    'no ConversionPolicy and no handler in the input converts servers.infra.example.com',
  );
});

test('a version that the definition does not serve is denied', async () => {
  const { outcomes } = await review({
    policies: [policy({})],
    objects: [object('Server', { name: 'a' }, {}, 'v2')],
  });
  expect(outcomes[0]?.messages).toEqual([
    'Server is not served in infra.example.com/v2, only in infra.example.com/v1, infra.example.com/v1beta1',
  ]);
});

test('integers beyond 2^53 stay exact, in YAML and in JSON', async () => {
  const rules = [{ expression: 'object.spec.id == 9007199254740993' }];
  const policies = [policy({ validate: { rules } })];
  const text = `apiVersion: ${GROUP}/v1\nkind: Server\nmetadata: { name: a, namespace: shop }\nspec: { id: 9007199254740993 }\n`;
  const { outcomes } = await review({ policies, objects: text });
  expect(outcomes[0]).toMatchObject({ verdict: 'allowed', object: { spec: { id: 9007199254740993n } } });
  const json = `{"apiVersion":"${GROUP}/v1","kind":"Server","metadata":{"name":"a"},"spec":{"id":9007199254740992}}`;
  expect((await review({ policies, objects: json })).verdicts).toEqual(['denied']);
});

test('built-in kinds need no definition, and have the defaults of the API server', async () => {
  const rules = [
    {
      expression: "object.spec.template.spec.containers.all(c, c.imagePullPolicy != 'Always')",
      message: 'pin it',
    },
  ];
  const deployment = (name: string, image: string) => ({
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name, namespace: 'shop' },
    spec: {
      selector: { matchLabels: { app: name } },
      template: { metadata: { labels: { app: name } }, spec: { containers: [{ name: 'c', image }] } },
    },
  });
  const { verdicts, notes } = await review({
    policies: [
      policy({
        match: { apiGroups: ['apps'], resources: ['deployments', 'statefulsets'] },
        validate: { rules },
      }),
    ],
    objects: [
      deployment('a', 'registry.example.com/a:1'),
      deployment('b', 'registry.example.com/b:latest'),
      {
        ...deployment('c', 'c'),
        kind: 'StatefulSet',
        spec: { template: { spec: { containers: [{ imagePullPolicy: 'Never' }] } } },
      },
    ],
  });
  expect(verdicts).toEqual(['allowed', 'denied', 'allowed']);
  expect(notes).toEqual([]);
});

test('a definition that no API server would accept is reported with its position', async () => {
  const broken = crd('Server', true, { datacenter: { type: 'text' } });
  await expect(
    review({ policies: [policy({})], crds: [broken], objects: [server('a', {})] }),
  ).rejects.toThrow(
    /existing\.yaml:1: CustomResourceDefinition\.apiextensions\.k8s\.io "servers\.infra\.example\.com" is invalid: .*datacenter/,
  );
  await expect(
    review({ policies: [policy({})], crds: [broken], objects: [server('a', {})] }),
  ).rejects.toThrow(UnusableInput);
});

test('--user and --group set the user who writes, and the groups of all users are added automatically', async () => {
  const rules = [
    { expression: "request.userInfo.username == 'system:serviceaccount:ci:deployer'" },
    {
      expression:
        "['admins', 'system:serviceaccounts:ci', 'system:authenticated'].all(g, g in request.userInfo.groups)",
    },
  ];
  const policies = [policy({ validate: { rules } })];
  const flags = { user: 'system:serviceaccount:ci:deployer', group: ['admins'] };
  expect((await review({ policies, objects: [server('a', {})], flags })).verdicts).toEqual(['allowed']);
  expect((await review({ policies, objects: [server('a', {})] })).verdicts).toEqual(['denied']);
});

test('while a RestoreWindow in the input is open, reference checks of its restorer are deferred', async () => {
  const window = {
    apiVersion: 'gatehouse.dev/v1alpha1',
    kind: 'RestoreWindow',
    metadata: { name: 'drill' },
    spec: { principals: [{ user: 'velero' }], expiresAt: '2026-11-21T13:00:00Z' },
  };
  const policies = [policy({ validate: { references: [datacenter] } })];
  const objects = [server('a', { datacenter: 'gone' })];
  const restored = await review({ policies, objects, existing: [window], flags: { user: 'velero' } });
  expect(restored.outcomes[0]).toMatchObject({
    verdict: 'warned',
    auditAnnotations: { 'restore-window': 'drill' },
  });
  expect((await review({ policies, objects, existing: [window] })).verdicts).toEqual(['denied']);
});

test('PolicyExceptions in the input apply until they expire, in their namespace, if the policy accepts them', async () => {
  const exception = (expiresAt: string, metadata: object = { namespace: 'shop' }) => ({
    apiVersion: 'gatehouse.dev/v1alpha1',
    kind: 'PolicyException',
    metadata: { name: 'old', ...metadata },
    spec: { policy: 'servers', objects: { names: ['s'] }, reason: 'old', expiresAt },
  });
  const verdictsWith = async (policyExceptions: 'Accept' | 'Refuse', ...exceptions: readonly object[]) => {
    const validate = { references: [datacenter] };
    const objects = ['s', 't'].map((name) => server(name, { datacenter: 'nowhere' }));
    const policies = [policy({ validate, policyExceptions }), ...exceptions];
    return (await review({ policies, objects, flags: { namespace: 'other' } })).verdicts;
  };
  const later = '2026-11-21T12:00:01Z';
  expect(await verdictsWith('Accept', exception(later))).toEqual(['allowed', 'denied']);
  expect(await verdictsWith('Accept', exception(later, {}))).toEqual(['denied', 'denied']);
  expect(await verdictsWith('Accept', exception('2026-11-21T12:00:00Z'))).toEqual(['denied', 'denied']);
  expect(await verdictsWith('Refuse', exception(later))).toEqual(['denied', 'denied']);
  const twice = [exception(later), exception(later, { namespace: 'other' })];
  expect(await verdictsWith('Accept', ...twice)).toEqual(['allowed', 'denied']);
});

test('an object that cannot exist in such a cluster is omitted, with a note', async () => {
  const { verdicts, notes } = await review({
    policies: [policy({ validate: { references: [datacenter] } })],
    existing: [
      object('Datacenter', { name: 'fra1' }, { capacity: 'many' }),
      object('Datacenter', { name: 'muc1' }, {}, 'v3'),
    ],
    objects: [server('a', { datacenter: 'muc1' })],
  });
  expect(verdicts).toEqual(['denied']);
  expect(notes).toEqual([
    expect.stringMatching(
      /existing\.yaml:\d+ \(document 2\): left out: Datacenter is not served in infra\.example\.com\/v3/,
    ),
  ]);
});

test('keys such as __proto__ are ordinary data', async () => {
  const { outcomes } = await review({
    policies: [
      policy({
        match: { apiGroups: ['net.example.com'], resources: ['things'] },
        defaults: [{ path: 'spec.added', value: 1 }],
      }),
    ],
    objects:
      'apiVersion: net.example.com/v1\nkind: Thing\nmetadata: { name: a }\nspec: { __proto__: { x: 1 }, constructor: 2 }\n',
  });
  expect(outcomes[0]?.patch).toEqual([{ op: 'add', path: '/spec/added', value: 1 }]);
  expect(JSON.stringify(outcomes[0]?.object?.spec)).toBe('{"__proto__":{"x":1},"constructor":2,"added":1}');
});
