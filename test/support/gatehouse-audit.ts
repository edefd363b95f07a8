/** What Gatehouse wrote, as the API server's audit log has it. */
import { USERS, type AuditEvent, type ControlPlane } from './control-plane.ts';

/** Written all the time by design, and no state of anybody. */
const NOT_COUNTED = new Set(['leases', 'events', 'selfsubjectaccessreviews']);
const WRITES = new Set(['create', 'update', 'patch', 'delete', 'deletecollection']);

/** Its successful writes, without leases, Events and questions. `replica`: only those of this one. */
export function writesOf(plane: Pick<ControlPlane, 'auditLog'>, replica?: string): readonly AuditEvent[] {
  return plane.auditLog().filter(({ user, verb, objectRef, responseStatus, userAgent }) => {
    const code = responseStatus?.code ?? 0;
    return (
      user.username === USERS.gatehouse.name &&
      WRITES.has(verb) &&
      !NOT_COUNTED.has(objectRef?.resource ?? '') &&
      code >= 200 &&
      code < 300 &&
      (replica === undefined || (userAgent ?? '').includes(`(${replica})`))
    );
  });
}

/** `secrets gatehouse-system/gatehouse-authority`: what was written. */
export function target({ objectRef }: AuditEvent): string {
  const { resource = '', subresource, namespace, name = '' } = objectRef ?? {};
  return `${[resource, subresource].filter(Boolean).join('/')} ${[namespace, name].filter(Boolean).join('/')}`;
}

/** How often each object was written. */
export function countByTarget(events: readonly AuditEvent[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const event of events) counts[target(event)] = (counts[target(event)] ?? 0) + 1;
  return counts;
}
