/** What Services are told about their serving certs, as Events. */
import { pick } from '../../json/objects.ts';
import type { StoredSecret } from '../../pki/serving-certs/facts.ts';
import type { ServiceIdentity } from '../../pki/serving-certs/secret.ts';
import type { RecordEvent } from '../controller.ts';

export interface Notices {
  readonly tell: (
    service: ServiceIdentity,
    type: 'Normal' | 'Warning',
    reason: string,
    message: string,
  ) => void;
  /**
   * A state, and not something that happened: told when it begins, and again before Kubernetes forgets it, however often it is
   * looked at in between. Whether it was told now.
   */
  readonly warn: (service: ServiceIdentity, reason: string, message: string, now: Date) => boolean;
  /** The state is over. */
  readonly allWell: (service: ServiceIdentity) => void;
  /** The same for a Service (`namespace/name`) that asks for nothing any more. */
  readonly forget: (key: string) => void;
}

/** For Events on a Secret. */
export function regardingSecret({ metadata = {} }: StoredSecret) {
  const { namespace = '', name = '' } = metadata;
  return { apiVersion: 'v1', kind: 'Secret', namespace, name, ...pick(metadata, 'uid') };
}

/** Kubernetes forgets an Event after an hour. */
export const REPEAT_MS = 50 * 60_000;

export function createNotices(record: RecordEvent): Notices {
  const told = new Map<string, { readonly said: string; readonly at: number }>();
  const keyOf = ({ namespace, name }: ServiceIdentity): string => `${namespace}/${name}`;
  const tell: Notices['tell'] = (service, type, reason, message) => {
    record({ regarding: { apiVersion: 'v1', kind: 'Service', ...service }, type, reason, message });
  };
  return {
    tell,
    warn: (service, reason, message, now) => {
      const known = told.get(keyOf(service));
      const said = `${service.uid} ${reason} ${message}`;
      const age = known?.said === said ? now.getTime() - known.at : Number.POSITIVE_INFINITY;
      if (age >= 0 && age < REPEAT_MS) return false;
      told.set(keyOf(service), { said, at: now.getTime() });
      tell(service, 'Warning', reason, message);
      return true;
    },
    allWell: (service) => {
      told.delete(keyOf(service));
    },
    forget: (key) => {
      told.delete(key);
    },
  };
}
