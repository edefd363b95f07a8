/** Webhooks that fail or answer incorrectly. */
import type { Api } from '../api.ts';
import { group } from '../case.ts';
import { configMap } from '../fixtures.ts';
import { allow, deny, type Handler } from '../hook-server.ts';
import { mutate, validate } from './webhook-helpers.ts';

const FAIL_AND_IGNORE: readonly (readonly [
  string,
  (api: Api) => Readonly<Record<string, unknown>>,
  Handler,
])[] = [
  ['cannot be reached', (api) => ({ clientConfig: nowhere(api) }), () => allow()],
  [
    'has no Service',
    () => ({ clientConfig: { service: { namespace: 'default', name: 'missing', path: '/x' } } }),
    () => allow(),
  ],
  ['answers garbage', () => ({}), () => ({ kind: 'raw', status: 200, text: 'garbage' })],
  ['answers 500', () => ({}), () => ({ kind: 'raw', status: 500, text: '{}' })],
  ['answers 404', () => ({}), () => ({ kind: 'raw', status: 404, text: '{}' })],
  ['answers for another request', () => ({}), () => allow({ uid: 'another' })],
  ['answers nothing', () => ({}), ({ apiVersion, kind }) => raw({ apiVersion, kind })],
  [
    'answers with another kind',
    () => ({}),
    ({ request: { uid } }) => raw({ apiVersion: 'v1', kind: 'Pod', response: { uid, allowed: true } }),
  ],
  [
    'answers in another version',
    () => ({}),
    ({ kind, request: { uid } }) =>
      raw({ apiVersion: 'admission.k8s.io/v1beta1', kind, response: { uid, allowed: true } }),
  ],
  ['takes too long', () => ({ timeoutSeconds: 1 }), () => ({ kind: 'slow', delayMs: 1_500 })],
  [
    'is not trusted',
    (api) => ({ clientConfig: { ...api.hooks.url('hook'), caBundle: undefined } }),
    () => allow(),
  ],
];

const raw = (body: object) => ({ kind: 'raw', status: 200, text: JSON.stringify(body) }) as const;

/** A port without a listener. */
const nowhere = (api: Api): object => ({ ...api.hooks.url('hook'), url: 'https://localhost:1/nobody' });

/** Each failure with the policies Fail and Ignore. Messages of TLS, HTTP and JSON libraries are removed. */
const failures = Object.fromEntries(
  FAIL_AND_IGNORE.flatMap(([what, changes, handler]) =>
    ['Fail', 'Ignore'].map((failurePolicy) => [
      `a webhook that ${what}: ${failurePolicy}`,
      {
        run: async (api: Api) => {
          await validate(api, handler, { ...changes(api), failurePolicy });
          await api.create('configmaps', configMap('a'));
        },
        normalise: (transcript: unknown) => shortened(transcript, what),
      },
    ]),
  ),
);

/** Failures with a message of the API server itself; for others only the origin is compared. */
const WORDED = new Set(['answers for another request', 'takes too long', 'has no Service']);

function shortened(transcript: unknown, what: string): unknown {
  if (WORDED.has(what)) return transcript;
  return JSON.parse(
    JSON.stringify(transcript, (key, value: unknown) =>
      key === 'message' && typeof value === 'string'
        ? value.replace(/(failed calling webhook "[^"]+": ).*/s, '$1…')
        : value,
    ),
  );
}

export const webhookFailures = group('webhook failures', {
  ...failures,
  'a mutating webhook that fails and is ignored changes nothing': async (api) => {
    await mutate(api, () => ({ kind: 'raw', status: 500, text: '' }), { failurePolicy: 'Ignore' });
    await api.create('configmaps', configMap('a'));
  },
  'a refusal is not a failure and is not ignored': async (api) => {
    await validate(api, () => deny({ message: 'no' }), { failurePolicy: 'Ignore' });
    await api.create('configmaps', configMap('a'));
  },
  'a webhook is reached by its URL': async (api) => {
    api.hooks.serve('hook', () => allow({ warnings: ['reached'] }));
    await api.install({
      kind: 'Validating',
      webhooks: [api.hooks.entry('hook', { clientConfig: api.hooks.url('hook') })],
    });
    await api.create('configmaps', configMap('a'));
  },
});
