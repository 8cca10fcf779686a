"""Stores: shared keys and values, through which ranks exchange their addresses before they are connected."""

from hemiola.runtime.bootstrap.store.client import TcpStore as TcpStore
from hemiola.runtime.bootstrap.store.foreign import wrap_store as wrap_store
from hemiola.runtime.bootstrap.store.local import LocalStore as LocalStore
from hemiola.runtime.bootstrap.store.prefixed import PrefixedStore as PrefixedStore
from hemiola.runtime.bootstrap.store.protocol import Store as Store
from hemiola.runtime.bootstrap.store.server import StoreLimits as StoreLimits
from hemiola.runtime.bootstrap.store.server import StoreServer as StoreServer
