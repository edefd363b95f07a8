import { expect, test } from 'vitest';

import type { RestoreWindow, RestoreWindowStatus } from '../api/restore-window.ts';
import { planWindow } from './window-plan.ts';

const times = { settleMs: 65_000, recheckMs: 60_000 };
const at = (time: string) => new Date(`2026-11-21T${time}Z`);

function window(
  status: RestoreWindowStatus | undefined,
  spec: Partial<RestoreWindow['spec']> = {},
): RestoreWindow {
  return {
    metadata: { name: 'drill' },
    spec: { principals: [{ user: 'velero' }], expiresAt: '2026-11-21T13:00:00Z', ...spec },
    ...(status === undefined ? {} : { status }),
  };
}

const closed = { closedAt: '2026-11-21T12:00:00.000Z', closeReason: 'Manual' } as const;
const sweep = (interim: boolean, startedAt = '2026-11-21T12:00:05.000Z') => ({
  lastSweep: { startedAt, finishedAt: '2026-11-21T12:02:00.000Z', objectsScanned: 1, interim },
});
const clean = { phase: 'Completed' } as const;
const dirty = { phase: 'CompletedWithViolations' } as const;

test.each<[string, RestoreWindow, Date, boolean, object]>([
  [
    'an open window waits for its end',
    window(undefined),
    at('12:00:00'),
    false,
    { kind: 'open', until: at('13:00:00') },
  ],
  [
    'an expired window closes',
    window(undefined),
    at('13:00:01'),
    false,
    { kind: 'close', at: at('13:00:01'), reason: 'Expired' },
  ],
  [
    'a window whose end was moved into the past closes now, so that what was let in until now is waited for',
    window({ openedAt: '2026-11-21T11:00:00.000Z' }, { expiresAt: '2026-11-21T11:30:00Z' }),
    at('12:00:00'),
    false,
    { kind: 'close', at: at('12:00:00'), reason: 'Expired' },
  ],
  [
    'a window closed by hand closes',
    window(undefined, { close: true }),
    at('12:00:00'),
    false,
    { kind: 'close', at: at('12:00:00'), reason: 'Manual' },
  ],
  [
    'a closed window is swept at once, for a first report',
    window(closed),
    at('12:00:01'),
    false,
    { kind: 'sweep', interim: true },
  ],
  [
    'a sweep from before the close does not count',
    window({ ...closed, ...sweep(false, '2026-11-21T11:00:00.000Z') }),
    at('12:00:01'),
    false,
    { kind: 'sweep', interim: true },
  ],
  [
    'then it settles',
    window({ ...closed, ...sweep(true) }),
    at('12:00:30'),
    false,
    { kind: 'wait', until: at('12:01:05') },
  ],
  [
    'a change while it settles is reported',
    window({ ...closed, ...sweep(true) }),
    at('12:00:30'),
    true,
    { kind: 'sweep', interim: true },
  ],
  [
    'settled, it is swept for good',
    window({ ...closed, ...sweep(true) }),
    at('12:01:05'),
    false,
    { kind: 'sweep', interim: false },
  ],
  [
    'a leader that was away sweeps for good at once',
    window(closed),
    at('14:00:00'),
    false,
    { kind: 'sweep', interim: false },
  ],
  [
    'a clean result is the end',
    window({ ...closed, ...sweep(false), ...clean }),
    at('15:00:00'),
    true,
    { kind: 'done' },
  ],
  [
    'violations are looked at again',
    window({ ...closed, ...sweep(false), ...dirty }),
    at('12:02:30'),
    false,
    { kind: 'wait', until: at('12:03:00') },
  ],
  [
    'and at once when a target appears',
    window({ ...closed, ...sweep(false), ...dirty }),
    at('12:02:30'),
    true,
    { kind: 'sweep', interim: false },
  ],
  [
    'a window for everybody is refused',
    window(undefined, { principals: [{ group: 'system:authenticated' }] }),
    at('12:00:00'),
    false,
    { kind: 'refuse' },
  ],
  [
    'a window that an edit has spoilt while it was open closes: what it let in is swept',
    window({ openedAt: '2026-11-21T11:00:00.000Z' }, { principals: [{ group: 'system:authenticated' }] }),
    at('12:00:00'),
    false,
    { kind: 'close', at: at('12:00:00'), reason: 'Manual' },
  ],
  [
    'one whose end was made unreadable closes too',
    window({ openedAt: '2026-11-21T11:00:00.000Z' }, { expiresAt: 'tomorrow' }),
    at('12:00:00'),
    false,
    { kind: 'close', at: at('12:00:00'), reason: 'Expired' },
  ],
  [
    'once closed it is swept, whatever its spec says by then',
    window(closed, { principals: [{ group: 'system:authenticated' }] }),
    at('12:00:01'),
    false,
    { kind: 'sweep', interim: true },
  ],
])('%s', (_name, object, now, changed, plan) => {
  expect(planWindow(object, now, { changed }, times)).toMatchObject(plan);
});
