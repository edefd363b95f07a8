// suite: shared-plane, sandbox: long
/** The API server's webhook calls go through the fault harness: one fault at a time. */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';

import { serverWith, startFaultScene, verdictOn, type FaultScene } from '../support/faults/scene.ts';
import { eventually } from '../support/processes.ts';

let scene: FaultScene;

beforeAll(async () => {
  scene = await startFaultScene();
});

afterEach(() => {
  scene.repair();
});

afterAll(async () => {
  await scene.stop();
});

const create = (name: string, parts: { serial?: string; at?: string } = {}) =>
  verdictOn(scene.cluster, serverWith(parts.at ?? 'fra1', { name, ...parts }));

const kindOf = async (...asked: Parameters<typeof create>) => (await create(...asked)).kind;

/** The faults, and whether calls can succeed during them. */
const WEBHOOK_FAULTS: readonly (readonly [
  string,
  (scene: FaultScene) => void,
  'passes' | 'fails' | 'either',
])[] = [
  [
    'frozen',
    ({ webhookTcp }) => {
      webhookTcp.freeze();
    },
    'fails',
  ],
  [
    'frozen on the way back',
    ({ webhookTcp }) => {
      webhookTcp.freeze('client');
    },
    'fails',
  ],
  [
    'cut',
    ({ webhookTcp }) => {
      webhookTcp.cut();
    },
    'fails',
  ],
  [
    'slow',
    ({ webhookTcp }) => {
      webhookTcp.delay({ min: 20, max: 200 });
    },
    'passes',
  ],
  [
    'reset',
    ({ webhookTcp }) => {
      webhookTcp.reset();
    },
    'either',
  ],
  [
    'half-closed towards Gatehouse',
    ({ webhookTcp }) => {
      webhookTcp.halfClose('target');
    },
    'either',
  ],
  [
    'half-closed towards the API server',
    ({ webhookTcp }) => {
      webhookTcp.halfClose('client');
    },
    'either',
  ],
];

test.each(WEBHOOK_FAULTS)(
  'while webhook calls are %s, no verdict is wrong, and calls succeed at once when the fault ends',
  async (how, begin, expected) => {
    expect(await kindOf('p')).toBe('allowed');
    begin(scene);
    const [good, bad, taken] = await Promise.all([
      create('p'),
      create('p', { at: 'nowhere' }),
      create('p', { serial: 'TAKEN' }),
    ]);
    const meanwhile = [good.kind, bad.kind, taken.kind].join(', ');
    if (expected === 'fails') expect(meanwhile).toBe('failed, failed, failed');
    if (expected === 'passes') expect(meanwhile).toBe('allowed, refused, refused');
    expect(good.kind).not.toBe('refused');
    expect(bad.kind).not.toBe('allowed');
    expect(taken.kind).not.toBe('allowed');
    scene.repair();
    const began = performance.now();
    await eventually('a valid create succeeds again', async () => (await kindOf('p')) === 'allowed', {
      timeoutMs: 5_000,
    });
    const took = Math.round(performance.now() - began);
    const message = good.kind === 'failed' ? `: ${good.message}` : '';
    console.log(`${how}: ${meanwhile}; passed ${took} ms after the fault ended${message}`);
    expect(await kindOf('p', { at: 'nowhere' })).toBe('refused');
    expect(await kindOf('p', { serial: 'TAKEN' })).toBe('refused');
  },
);
