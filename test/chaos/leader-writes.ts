/** Whether only one replica at a time wrote as the leader: judged by the API server's audit log alone. */
import { createReadStream, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import { USERS } from '../support/control-plane-users.ts';
import type { AuditEvent } from '../support/control-plane.ts';

/** What the audit log says of one write of a replica. Times are those of the API server, in milliseconds. */
export interface ReplicaWrite {
  readonly replica: string;
  readonly target: string;
  readonly isLease: boolean;
  readonly received: number;
  readonly done: number;
}

export interface LeaderVerdict {
  /** Writes that only a leader makes. */
  readonly writes: number;
  /** How often the lease went to another replica. */
  readonly terms: number;
  readonly problems: readonly string[];
}

/** Whoever wrote the lease last holds it: a write of another one after that is a write of a leader of the past. */
export function judgeLeaders(writes: readonly ReplicaWrite[]): LeaderVerdict {
  const leases = writes.filter(({ isLease }) => isLease).toSorted((a, b) => a.done - b.done);
  const others = writes.filter(({ isLease }) => !isLease).toSorted((a, b) => a.received - b.received);
  const problems: string[] = [];
  let next = 0;
  let holder: string | undefined;
  let terms = 0;
  const goOnTo = (time: number) => {
    for (let lease = leases[next]; lease !== undefined && lease.done <= time; lease = leases[++next]) {
      if (lease.replica !== holder) terms += 1;
      holder = lease.replica;
    }
  };
  for (const { replica, target, received } of others) {
    goOnTo(received);
    if (replica !== holder)
      problems.push(
        `${replica} wrote ${target} at ${new Date(received).toISOString()}, while ${holder ?? 'nobody'} held the lease`,
      );
  }
  goOnTo(Infinity);
  return { writes: others.length, terms, problems };
}

/** Claims are made by whoever admits a request; Events and reviews are no state of anybody. */
const OF_EVERY_REPLICA = new Set([
  'uniqueclaims',
  'events',
  'selfsubjectaccessreviews',
  'subjectaccessreviews',
  'tokenreviews',
]);
const WRITES = new Set(['create', 'update', 'patch', 'delete', 'deletecollection']);

/** Every successful write of a replica that only a leader makes, and every one of the lease. A long run's log is in several files. */
export async function readLeaderWrites(folder: string): Promise<readonly ReplicaWrite[]> {
  const files = readdirSync(folder).filter((name) => /^audit.*\.log$/.test(name));
  const writes: ReplicaWrite[] = [];
  for (const file of files) {
    for await (const line of createInterface({ input: createReadStream(join(folder, file)) })) {
      if (!line.includes(USERS.gatehouse.name)) continue;
      const write = parse(line);
      if (write !== undefined) writes.push(write);
    }
  }
  return writes;
}

type TimedEvent = AuditEvent & { readonly requestReceivedTimestamp: string };

function parse(line: string): ReplicaWrite | undefined {
  let event: TimedEvent;
  try {
    event = JSON.parse(line) as TimedEvent; // audit.k8s.io/v1
  } catch {
    return undefined; // a line that was cut off when the API server ended
  }
  const { user, verb, objectRef, responseStatus, userAgent = '' } = event;
  const { resource = '', subresource, namespace, name = '' } = objectRef ?? {};
  const code = responseStatus?.code ?? 0;
  if (user.username !== USERS.gatehouse.name || !WRITES.has(verb) || OF_EVERY_REPLICA.has(resource))
    return undefined;
  if (code < 200 || code >= 300) return undefined;
  const what = [resource, subresource].filter(Boolean).join('/');
  return {
    replica: /\(([^)]+)\)/.exec(userAgent)?.[1] ?? userAgent,
    target: `${verb} ${what} ${[namespace, name].filter(Boolean).join('/')}`,
    isLease: resource === 'leases',
    received: Date.parse(event.requestReceivedTimestamp),
    done: Date.parse(event.stageTimestamp),
  };
}
