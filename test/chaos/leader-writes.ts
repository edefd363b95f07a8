/** Checks that only one replica at a time wrote as the leader. Uses only the API server's audit log. */
import { createReadStream, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import { isGatehouse } from '../support/control-plane-users.ts';
import type { AuditEvent } from '../support/control-plane.ts';

/** A write of a replica in the audit log. The API server's times, in milliseconds. */
export interface ReplicaWrite {
  readonly replica: string;
  readonly target: string;
  readonly isLease: boolean;
  readonly received: number;
  readonly done: number;
}

/** The replica that last wrote the Lease is the leader. A leader's write by another replica after that is a problem. */
export function judgeLeaders(writes: readonly ReplicaWrite[]) {
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
        `${replica} wrote ${target} at ${new Date(received).toISOString()}, while ${holder ?? 'no replica'} held the lease`,
      );
  }
  goOnTo(Infinity);
  return { writes: others.length, terms, problems };
}

/** The replica that admits a request creates claims. Events and reviews of access, tokens and users do not change the cluster's state. */
const isOfEveryReplica = (resource: string): boolean =>
  ['uniqueclaims', 'events'].includes(resource) || resource.endsWith('reviews');
const WRITES = new Set(['create', 'update', 'patch', 'delete', 'deletecollection']);

/** The log of a long run has several files. */
export async function readLeaderWrites(folder: string): Promise<readonly ReplicaWrite[]> {
  const files = readdirSync(folder).filter((name) => /^audit.*\.log$/.test(name));
  const writes: ReplicaWrite[] = [];
  for (const file of files) {
    for await (const line of createInterface({ input: createReadStream(join(folder, file)) })) {
      if (!line.includes(':gatehouse-system:gatehouse')) continue;
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
    return undefined; // the API server stopped while it wrote this line
  }
  const { user, verb, objectRef, responseStatus, userAgent = '', requestURI } = event;
  const { resource = '', subresource, namespace, name = '' } = objectRef ?? {};
  const code = responseStatus?.code ?? 0;
  if (!isGatehouse(user.username) || !WRITES.has(verb) || isOfEveryReplica(resource)) return undefined;
  // Every replica tries the webhooks of a policy with a dry run.
  if (code < 200 || code >= 300 || requestURI.includes('dryRun=All')) return undefined;
  const what = [resource, subresource].filter(Boolean).join('/');
  return {
    replica: /\(([^)]+)\)/.exec(userAgent)?.[1] ?? userAgent,
    target: `${verb} ${what} ${[namespace, name].filter(Boolean).join('/')}`,
    isLease: resource === 'leases',
    received: Date.parse(event.requestReceivedTimestamp),
    done: Date.parse(event.stageTimestamp),
  };
}
