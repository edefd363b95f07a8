/** `gatehouse review` judges objects exactly like a cluster that contains the same manifests. */
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { stringify } from 'yaml';

import type { ReviewFlags } from '../../src/cli/review/flags.ts';
import { UnusableInput } from '../../src/cli/review/input.ts';
import { reviewObjects } from '../../src/cli/review/review.ts';
import type { AdmissionPolicySpec } from '../../src/api/admission-policy.ts';
import { ANY, definitionOf, versionOf, withSpec } from '../support/definitions.ts';
import { testFolder } from '../support/folder.ts';
import { writeFiles } from '../support/review-command.ts';
import { toDatacenter, deployment } from '../support/objects.ts';

const GROUP = 'infra.example.com';
const NOW = new Date('2026-11-21T12:00:00Z');
const match = { apiGroups: [GROUP], resources: ['servers'] };
const folder = testFolder('review');

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
const ofGatehouse = (kind: string, name: string, spec: object, metadata: object = {}): object => ({
  apiVersion: 'gatehouse.dev/v1alpha1',
  kind,
  metadata: { name, ...metadata },
  spec,
});
const policy = (
  spec: Omit<AdmissionPolicySpec, 'match' | 'validate'> & { match?: object; validate?: object },
  name = 'servers',
) => ofGatehouse('AdmissionPolicy', name, { match, ...spec });
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

/** The verdicts on objects under one policy on Servers. */
const verdictsOn = async (
  spec: Parameters<typeof policy>[0],
  objects: Inputs['objects'],
  more: Partial<Inputs> = {},
) => (await review({ policies: [policy(spec)], objects, ...more })).verdicts;
const REFERENCE = { validate: { references: [toDatacenter] } };
const rules = (...all: readonly object[]) => ({ validate: { rules: all } }) as { readonly validate: object };

test('objects under review can refer to each other, and to existing objects', async () => {
  const servers = ['muc1', 'fra1', 'ber1'].map((name) => server(name, { datacenter: name }));
  const existing = [object('Datacenter', { name: 'muc1' })];
  const verdicts = await verdictsOn(REFERENCE, [...servers, object('Datacenter', { name: 'fra1' })], {
    existing,
  });
  expect(verdicts).toEqual(['allowed', 'allowed', 'denied', 'unchecked']);
});

test('an object that is being created does not exist yet, so it cannot refer to itself', async () => {
  const peer = { name: 'peer', path: 'spec.serial', target: { apiGroup: GROUP, resource: 'servers' } };
  const objects = ['a', 'b'].map((name) => server(name, { serial: 'a' }));
  expect(await verdictsOn({ validate: { references: [peer] } }, objects)).toEqual(['denied', 'allowed']);
});

test('rules see the defaults of the definition and the changes of policies, even in referenced objects', async () => {
  const { outcomes } = await review({
    policies: [
      policy({
        mutations: [{ name: 'serial', expression: "{'spec': {'serial': object.metadata.name + '-1'}}" }],
        validate: {
          references: [toDatacenter],
          rules: [
            { expression: "object.spec.tier == 'standard'" },
            { expression: "object.spec.serial == object.metadata.name + '-1'" },
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
  const condition = "object.metadata.name == 'c'";
  const { outcomes } = await review({
    policies: [policy({ mutations: [{ name: 'many', expression: "{'spec': {'units': 500}}", condition }] })],
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
  const fra1 = { datacenter: 'fra1' };
  const { outcomes } = await review({
    policies: [
      policy({
        validate: {
          immutable: ['spec.datacenter'],
          rules: [{ expression: "request.operation == 'UPDATE'", message: 'created' }],
        },
      }),
    ],
    old: ['a', 'b'].map((name) => server(name, fra1)),
    objects: [server('a', { datacenter: 'muc1' }), server('b', { ...fra1, units: 1 }), server('c', {})],
  });
  expect(outcomes.map(({ messages }) => messages.join())).toEqual([
    expect.stringContaining('cannot be changed to "muc1"'),
    '',
    'created (policy servers)',
  ]);
});

test('with --old and existingViolations: Allow, an update may keep a violation, with a warning', async () => {
  const small = { ...rules({ expression: 'object.spec.units < 5' }), existingViolations: 'Allow' } as const;
  const { outcomes } = await review({
    policies: [policy(small)],
    old: ['a', 'b'].map((name) => server(name, { units: 9 })),
    objects: [server('a', { units: 9, tier: 'gold' }), server('b', { units: 8 })],
  });
  expect(outcomes.map(({ verdict }) => verdict)).toEqual(['warned', 'denied']);
  expect(outcomes[0]?.warnings).toEqual([expect.stringContaining('allowed, because the update does not')]);
});

test('an existing Pod keeps its immutable fields: policies leave them alone, and manifests cannot change them', async () => {
  const pod = (name: string, spec: object = {}) => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name },
    spec: { containers: [{ name: 'main', image: 'main' }], ...spec },
  });
  const pods = { apiGroups: [''], resources: ['pods'] };
  const defaults = [{ path: 'spec.hostname', value: 'a' }];
  const { outcomes, notes } = await review({
    policies: [policy({ match: pods, defaults })],
    old: [pod('a', { nodeName: 'n' }), pod('b')], // manifests lack the nodeName
    objects: [pod('a'), pod('b', { hostNetwork: true }), pod('c')],
  });
  expect(outcomes.map(({ messages, patch }) => [messages.join(), patch.length])).toEqual([
    ['', 0],
    [expect.stringContaining('pod updates may not change fields other than'), 0],
    ['', 1],
  ]);
  expect(notes.join()).toContain('the default of spec.hostname does not apply to updates of pods');
});

test('the review fails without a policy, a handler, or an object to review', async () => {
  await expect(review({ policies: [], objects: [server('a', {})] })).rejects.toThrow(
    'no AdmissionPolicy and no handler in the input: pass policies with -p',
  );
  await expect(review({ policies: [], objects: [policy({})] })).rejects.toThrow(
    /f\.yaml: nothing to review: all objects configure Gatehouse$/,
  );
});

test('a unique value can occur in only one of all the objects in the input', async () => {
  const { outcomes } = await review({
    policies: [policy({ validate: { unique: [{ name: 'serial', paths: ['spec.serial'] }] } })],
    existing: [server('old', { serial: 's1' })],
    objects: Object.entries({ a: 's1', b: 's2', c: 's2', d: 's3' }).map(([name, serial]) =>
      server(name, { serial }),
    ),
  });
  expect(outcomes.map(({ verdict }) => verdict)).toEqual(['denied', 'denied', 'denied', 'allowed']);
  expect(outcomes.map(({ messages }) => messages[0]).slice(0, 2)).toEqual([
    expect.stringContaining('"s1" is held by servers.infra.example.com "old" in namespace "shop"'),
    expect.stringContaining('"s2" is held by servers.infra.example.com "c"'),
  ]);
});

test('selectors match labels of Namespaces in the input, or else the name of the Namespace', async () => {
  const refusing = (name: string, selector: 'namespaceSelector' | 'objectSelector', matchLabels: object) =>
    policy({ match: { ...match, [selector]: { matchLabels } }, ...rules({ expression: 'false' }) }, name);
  const labels = { app: 'web' };
  const { verdicts } = await review({
    policies: [
      refusing('by-label', 'namespaceSelector', { tier: 'gold' }),
      refusing('by-name', 'namespaceSelector', { 'kubernetes.io/metadata.name': 'named' }),
      refusing('by-object', 'objectSelector', labels),
    ],
    existing: [namespace('golden', { tier: 'gold' })],
    objects: [
      ...['golden', 'named', 'other'].map((name) => server(name, {}, { namespace: name })),
      server('d', {}, { namespace: 'other', labels }),
      server('e', {}, { namespace: 'gatehouse-system', labels }),
    ],
  });
  expect(verdicts).toEqual(['denied', 'denied', 'unchecked', 'denied', 'unchecked']);
});

test('a rule that only an API server can evaluate is left out, with a note', async () => {
  const may = "authorizer.group('').resource('pods').check('get').allowed()";
  const { notes, verdicts } = await review({
    policies: [policy(rules({ name: 'may', expression: may }, { expression: 'object.spec.units < 9' }))],
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
  const clientConfig = { url: 'https://gatehouse.example.com' };
  const webhook = { clientConfig, conversionReviewVersions: ['v1'] };
  const crds = [
    { ...definition, spec: { ...definition.spec, conversion: { strategy: 'Webhook', webhook } } },
  ];
  const toHub = [{ move: { from: 'spec.level', to: 'spec.tier' } }];
  const fromHub = [{ move: { from: 'spec.tier', to: 'spec.level' } }];
  const conversion = ofGatehouse('ConversionPolicy', 'servers', {
    target: { apiGroup: GROUP, resource: 'servers' },
    hub: 'v1',
    versions: [{ name: 'v1beta1', toHub, fromHub }],
  });
  const gold = policy({
    match: { ...match, apiVersions: ['v1'] },
    ...rules({ expression: "object.spec.tier == 'gold'", message: 'only gold' }),
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

test('integers beyond 2^53 stay exact, in YAML and in JSON', async () => {
  const policies = [policy(rules({ expression: 'object.spec.id == 9007199254740993' }))];
  const text = `apiVersion: ${GROUP}/v1\nkind: Server\nmetadata: { name: a, namespace: shop }\nspec: { id: 9007199254740993 }\n`;
  const { outcomes } = await review({ policies, objects: text });
  expect(outcomes[0]).toMatchObject({ verdict: 'allowed', object: { spec: { id: 9007199254740993n } } });
  const json = `{"apiVersion":"${GROUP}/v1","kind":"Server","metadata":{"name":"a"},"spec":{"id":9007199254740992}}`;
  expect((await review({ policies, objects: json })).verdicts).toEqual(['denied']);
});

test('built-in kinds do not need a definition, and have the defaults of the API server', async () => {
  const expression = "object.spec.template.spec.containers.all(c, c.imagePullPolicy != 'Always')";
  const pulled = { containers: [{ imagePullPolicy: 'Never' }] };
  const { verdicts, notes } = await review({
    policies: [
      policy({
        match: { apiGroups: ['apps'], resources: ['deployments', 'statefulsets'] },
        ...rules({ expression }),
      }),
    ],
    objects: [
      deployment('a', 1),
      deployment('b', 1, {}, { image: 'registry.example.com/b:latest' }),
      { ...deployment('c', 1), kind: 'StatefulSet', spec: { template: { spec: pulled } } },
    ],
  });
  expect(verdicts).toEqual(['allowed', 'denied', 'allowed']);
  expect(notes).toEqual([]);
});

test('a definition that no API server would accept is reported with its position', async () => {
  const broken = crd('Server', true, { datacenter: { type: 'text' } });
  const refusal = verdictsOn({}, [server('a', {})], { crds: [broken] }).catch((error: unknown) => error);
  expect(await refusal).toBeInstanceOf(UnusableInput);
  expect(String(await refusal)).toMatch(
    /existing\.yaml:1: CustomResourceDefinition\.apiextensions\.k8s\.io "servers\.infra\.example\.com" is invalid: .*datacenter/,
  );
});

test('--user and --group set the user who writes, and the groups of all users are added automatically', async () => {
  const groups = "['admins', 'system:serviceaccounts:ci', 'system:authenticated']";
  const spec = rules(
    { expression: "request.userInfo.username == 'system:serviceaccount:ci:deployer'" },
    { expression: `${groups}.all(g, g in request.userInfo.groups)` },
  );
  const flags = { user: 'system:serviceaccount:ci:deployer', group: ['admins'] };
  expect(await verdictsOn(spec, [server('a', {})], { flags })).toEqual(['allowed']);
  expect(await verdictsOn(spec, [server('a', {})])).toEqual(['denied']);
});

test('while a RestoreWindow in the input is open, reference checks of its restorer are deferred', async () => {
  const spec = { principals: [{ user: 'velero' }], expiresAt: '2026-11-21T13:00:00Z' };
  const window = ofGatehouse('RestoreWindow', 'drill', spec);
  const policies = [policy(REFERENCE)];
  const objects = [server('a', { datacenter: 'gone' })];
  const restored = await review({ policies, objects, existing: [window], flags: { user: 'velero' } });
  expect(restored.outcomes[0]).toMatchObject({
    verdict: 'warned',
    auditAnnotations: { 'restore-window': 'drill' },
  });
  expect((await review({ policies, objects, existing: [window] })).verdicts).toEqual(['denied']);
});

test('PolicyExceptions in the input apply until they expire, in their namespace, if the policy accepts them', async () => {
  const spec = { policy: 'servers', objects: { names: ['s'] }, reason: 'old' };
  const exception = (expiresAt: string, metadata: object = { namespace: 'shop' }) =>
    ofGatehouse('PolicyException', 'old', { ...spec, expiresAt }, metadata);
  const verdictsWith = async (policyExceptions: 'Accept' | 'Refuse', ...exceptions: readonly object[]) => {
    const objects = ['s', 't'].map((name) => server(name, { datacenter: 'nowhere' }));
    const policies = [policy({ ...REFERENCE, policyExceptions }), ...exceptions];
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
    policies: [policy(REFERENCE)],
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
