"""Stores: where ranks meet before they know each other's addresses."""

from hemiola.runtime.store.client import TcpStore as TcpStore
from hemiola.runtime.store.foreign import wrap_store as wrap_store
from hemiola.runtime.store.local import LocalStore as LocalStore
from hemiola.runtime.store.prefixed import PrefixedStore as PrefixedStore
from hemiola.runtime.store.protocol import Store as Store
from hemiola.runtime.store.server import StoreLimits as StoreLimits
from hemiola.runtime.store.server import StoreServer as StoreServer
