/** What `runController` takes and gives. Imports nothing: the declarations of the package stay small. */
export interface ControllerTrial {
  /** The object to reconcile. */
  readonly object: object;
  /** Other objects in the cluster, by kind: `{ namespaces: [shop], 'racks.example.com': [r1] }`. */
  readonly cluster?: Readonly<Record<string, readonly object[]>>;
  /** Default: now. */
  readonly now?: Date;
  readonly signal?: AbortSignal;
}

export interface ControllerWrite {
  readonly verb: 'apply' | 'delete' | 'finalizers' | 'status';
  /** `namespaces alice` */
  readonly target: string;
  /** What was sent: the object, the finalizers or the status. */
  readonly body: unknown;
}
