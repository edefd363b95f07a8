/** The objects in which Gatehouse keeps its state. */
import { SYSTEM_NAMESPACE } from './cluster.ts';

export const AUTHORITY = { namespace: SYSTEM_NAMESPACE, name: 'gatehouse-authority' };
export const SERVING = { namespace: SYSTEM_NAMESPACE, name: 'gatehouse-serving' };
export const BUNDLE = { namespace: SYSTEM_NAMESPACE, name: 'gatehouse-cabundle' };
export const LEASE = { namespace: SYSTEM_NAMESPACE, name: 'gatehouse' };
